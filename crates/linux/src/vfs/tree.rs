//! Names: looking them up, making, moving and removing them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::host_view::HostNode;
use super::path::LINKS_MAX;
use super::spelling::length_of;
use super::{DirectoryNode, FileNode, FileSystem, HostPath, HostView, InodeId, Node};
use crate::errno::Errno;
use crate::net::report::NET_REPORTS;

/// The longest absolute path, with its terminating zero (`PATH_MAX`).
pub(crate) const PATH_BYTES_MAX: usize = 4096;

impl FileSystem {
    /// A tree that holds an empty root, or the root of the given host directory.
    pub fn new(start_ns: u64, host: Option<HostPath>) -> Self {
        let mut files = Self {
            start_ns,
            ..Self::default()
        };
        let root = DirectoryNode {
            parent: InodeId(0),
            name: String::new(),
            entries: BTreeMap::new(),
            host,
            replaces_host: false,
        };
        files.root = files.create(Node::Directory(root), 0o755, start_ns);
        if let Ok(inode) = files.inode_mut(files.root) {
            inode.links = 2;
        }
        files
    }

    /// The inode of a name in a directory.
    pub fn child(
        &mut self,
        host: &HostView,
        directory: InodeId,
        name: &str,
    ) -> Result<Option<InodeId>, Errno> {
        let node = self.directory(directory)?;
        match name {
            "." => return Ok(Some(directory)),
            ".." => return Ok(Some(node.parent)),
            _ => {}
        }
        if let Some(entry) = node.entries.get(name) {
            return Ok(*entry);
        }
        if directory == self.processes && name == "net" {
            return self.make_net().map(Some);
        }
        let Some(path) = node.host.as_ref().map(|host| host.child(name)) else {
            return self.make_late(host, directory, name);
        };
        let Some(found) = host.node(path.mount, &path.path) else {
            return self.make_late(host, directory, name);
        };
        Ok(Some(self.adopt(directory, name, path, found)?))
    }

    /// Makes `/proc/net`, which takes no room before somebody looks.
    fn make_net(&mut self) -> Result<InodeId, Errno> {
        let start_ns = self.start_ns;
        let node = DirectoryNode::empty(self.processes, "net", None);
        let net = self.create(node, 0o555, start_ns);
        self.enter(self.processes, "net", net)?;
        for (name, report) in NET_REPORTS {
            let id = self.create(Node::NetReport(report), 0o444, start_ns);
            self.enter(net, name, id)?;
        }
        Ok(net)
    }

    /// Makes the inode of something found on the host.
    fn adopt(
        &mut self,
        directory: InodeId,
        name: &str,
        path: HostPath,
        found: HostNode,
    ) -> Result<InodeId, Errno> {
        let (node, mode) = match found {
            HostNode::File { size, executable } => {
                let file = FileNode {
                    size,
                    host: Some(path),
                    host_bytes: size,
                    ..FileNode::default()
                };
                (Node::File(file), if executable { 0o755 } else { 0o644 })
            }
            HostNode::Directory => (DirectoryNode::empty(directory, name, Some(path)), 0o755),
            HostNode::Link { target } => (Node::Link(target), 0o777),
        };
        let id = self.create(node, mode, self.start_ns);
        self.enter(directory, name, id)?;
        Ok(id)
    }

    /// Puts an inode under a name; counts the link.
    pub fn enter(&mut self, directory: InodeId, name: &str, id: InodeId) -> Result<(), Errno> {
        self.directory_mut(directory)?
            .entries
            .insert(name.to_owned(), Some(id));
        let inode = self.inode_mut(id)?;
        inode.links += 1;
        if let Node::Directory(node) = &mut inode.node {
            node.parent = directory;
            name.clone_into(&mut node.name);
            inode.links = 2;
        }
        Ok(())
    }

    /// Takes a name away; the caller frees the inode if that was its last use.
    pub fn leave(&mut self, host: &HostView, directory: InodeId, name: &str) -> Result<(), Errno> {
        let node = self.directory_mut(directory)?;
        let from_host = node
            .host
            .as_ref()
            .map(|path| path.child(name))
            .is_some_and(|path| host.node(path.mount, &path.path).is_some());
        let id = if from_host {
            node.entries.insert(name.to_owned(), None).flatten()
        } else {
            node.entries.remove(name).flatten()
        };
        if let Some(id) = id {
            let inode = self.inode_mut(id)?;
            inode.links = if inode.is_directory() {
                0
            } else {
                inode.links.saturating_sub(1)
            };
        }
        Ok(())
    }

    /// True if the host has something under a name in a directory, hidden or not.
    pub fn stands_on_host(&self, host: &HostView, directory: InodeId, name: &str) -> bool {
        self.directory(directory)
            .ok()
            .and_then(|node| node.host.as_ref())
            .map(|path| path.child(name))
            .is_some_and(|path| host.node(path.mount, &path.path).is_some())
    }

    /// The names in a directory, sorted, without `.` and `..`.
    pub fn names(&self, host: &HostView, directory: InodeId) -> Result<Vec<String>, Errno> {
        let node = self.directory(directory)?;
        let below = node
            .host
            .as_ref()
            .map_or_else(Arc::default, |path| host.listing(path.mount, &path.path));
        let mut names: Vec<String> = below
            .iter()
            .filter(|name| !node.entries.contains_key(*name))
            .cloned()
            .chain(
                node.entries
                    .iter()
                    .filter(|(_, id)| id.is_some())
                    .map(|(name, _)| name.clone()),
            )
            .collect();
        names.sort();
        Ok(names)
    }

    /// The absolute path of a directory.
    pub fn directory_path(&self, directory: InodeId) -> String {
        let mut parts = Vec::new();
        let mut at = directory;
        // Bounded, so that a damaged tree cannot turn it into a circle.
        for _ in 0..PATH_BYTES_MAX {
            let Ok(node) = self.directory(at) else { break };
            if at == self.root {
                break;
            }
            parts.push(node.name.as_str());
            at = node.parent;
        }
        if parts.is_empty() {
            return "/".to_owned();
        }
        parts
            .iter()
            .rev()
            .fold(String::new(), |path, part| path + "/" + part)
    }

    /// How long the absolute path of a directory is, the root's being 0.
    pub fn path_bytes(&self, directory: InodeId) -> usize {
        let mut bytes = 0;
        let mut at = directory;
        while at != self.root && bytes <= PATH_BYTES_MAX {
            let Ok(node) = self.directory(at) else { break };
            bytes += length_of(&node.name) + 1;
            at = node.parent;
        }
        bytes
    }

    /// How long the longest path is from an inode to something below it that has been looked up.
    pub fn longest_path_below(&self, id: InodeId) -> usize {
        let mut longest = 0;
        let mut waiting = vec![(id, 0)];
        while let Some((id, bytes)) = waiting.pop() {
            longest = longest.max(bytes);
            // Bounded, so that a damaged tree cannot turn it into a circle.
            let Ok(node) = self.directory(id) else {
                continue;
            };
            if bytes > PATH_BYTES_MAX {
                break;
            }
            let below = node.entries.iter();
            waiting
                .extend(below.filter_map(|(name, id)| Some(((*id)?, bytes + length_of(name) + 1))));
        }
        longest
    }

    /// Fails if a new name in a directory, with so much below it, has too long a path. So no tree is
    /// deeper than paths can say, and no path longer than what is reckoned for one.
    pub fn check_path_bytes(
        &self,
        directory: InodeId,
        name: &str,
        below: usize,
    ) -> Result<(), Errno> {
        if self.path_bytes(directory) + 1 + length_of(name) + below >= PATH_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        Ok(())
    }

    /// A path that has been looked up, without the links on it; `None` if it no longer leads anywhere.
    pub fn real_path(&self, path: &str) -> Option<String> {
        let mut at = self.root;
        let mut rest: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
        let mut links = 0;
        let mut last = None;
        while let Some(name) = rest.pop() {
            let directory = self.directory(at).ok()?;
            let next = match name.as_str() {
                "" | "." => continue,
                ".." => directory.parent,
                _ => (*directory.entries.get(&name)?)?,
            };
            match &self.inode(next).ok()?.node {
                Node::Link(target) => {
                    links += 1;
                    if links > LINKS_MAX {
                        return None;
                    }
                    if target.starts_with('/') {
                        at = self.root;
                    }
                    rest.extend(target.rsplit('/').map(str::to_owned));
                }
                Node::Directory(_) => at = next,
                _ => last = Some(name).filter(|_| rest.is_empty()),
            }
        }
        Some(format!(
            "{}/{}",
            self.directory_path(at).trim_end_matches('/'),
            last?
        ))
    }

    /// Some path of an inode that has been looked up, for reports.
    pub fn path_of(&self, id: InodeId) -> Option<String> {
        self.inodes.iter().enumerate().find_map(|(index, inode)| {
            let Node::Directory(node) = &inode.as_ref()?.node else {
                return None;
            };
            let (name, _) = node.entries.iter().find(|(_, entry)| **entry == Some(id))?;
            let parent = self.directory_path(InodeId(index as u32));
            Some(format!("{}/{name}", parent.trim_end_matches('/')))
        })
    }

    /// True if `inner` is `outer` or lies below it.
    pub fn is_below(&self, inner: InodeId, outer: InodeId) -> bool {
        let mut at = inner;
        for _ in 0..PATH_BYTES_MAX {
            if at == outer {
                return true;
            }
            match self.directory(at) {
                Ok(node) if at != self.root => at = node.parent,
                _ => return false,
            }
        }
        false
    }
}
