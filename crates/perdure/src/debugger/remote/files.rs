//! The guest's files as gdb reads them: the program, its interpreter, libraries, and what they name.
//!
//! Always true here: files are read and never written.

use gdbstub::target::ext::host_io::{
    FsKind, HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat,
    HostIoFstatOps, HostIoOpen, HostIoOpenFlags, HostIoOpenMode, HostIoOpenOps, HostIoPread,
    HostIoPreadOps, HostIoResult, HostIoSetfs, HostIoSetfsOps, HostIoStat,
};

use super::target::{Remote, part};

/// Files that a client may have open at a time.
const OPEN: usize = 256;

impl HostIo for Remote<'_> {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }

    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }

    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }

    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }

    fn support_setfs(&mut self) -> Option<HostIoSetfsOps<'_, Self>> {
        Some(self)
    }
}

fn errno<T>(errno: HostIoErrno) -> HostIoResult<T, Remote<'static>> {
    Err(HostIoError::Errno(errno))
}

impl HostIoOpen for Remote<'_> {
    fn open(
        &mut self,
        name: &[u8],
        flags: HostIoOpenFlags,
        _: HostIoOpenMode,
    ) -> HostIoResult<u32, Self> {
        let writes = HostIoOpenFlags::O_WRONLY
            | HostIoOpenFlags::O_RDWR
            | HostIoOpenFlags::O_CREAT
            | HostIoOpenFlags::O_TRUNC;
        if flags.intersects(writes) {
            return errno(HostIoErrno::EROFS);
        }
        let path = String::from_utf8_lossy(name);
        let Some(contents) = self.session.file(&path) else {
            return errno(HostIoErrno::ENOENT);
        };
        let free = self.files.iter().position(Option::is_none);
        let number = free.unwrap_or(self.files.len());
        if number >= OPEN {
            return errno(HostIoErrno::EMFILE);
        }
        if number == self.files.len() {
            self.files.push(None);
        }
        self.files[number] = Some(contents);
        Ok(number as u32)
    }
}

impl HostIoClose for Remote<'_> {
    fn close(&mut self, number: u32) -> HostIoResult<(), Self> {
        match self.files.get_mut(number as usize).and_then(Option::take) {
            Some(_) => Ok(()),
            None => errno(HostIoErrno::EBADF),
        }
    }
}

impl HostIoPread for Remote<'_> {
    fn pread(
        &mut self,
        number: u32,
        count: usize,
        offset: u64,
        buffer: &mut [u8],
    ) -> HostIoResult<usize, Self> {
        match self.files.get(number as usize) {
            Some(Some(contents)) => Ok(part(contents, offset, count, buffer)),
            _ => errno(HostIoErrno::EBADF),
        }
    }
}

impl HostIoFstat for Remote<'_> {
    fn fstat(&mut self, number: u32) -> HostIoResult<HostIoStat, Self> {
        let Some(Some(contents)) = self.files.get(number as usize) else {
            return errno(HostIoErrno::EBADF);
        };
        let size = contents.len() as u64;
        Ok(HostIoStat {
            st_dev: 0,
            st_ino: number + 1,
            st_mode: HostIoOpenMode::S_IFREG | HostIoOpenMode::S_IRUSR,
            st_nlink: 1,
            st_uid: 0,
            st_gid: 0,
            st_rdev: 0,
            st_size: size,
            st_blksize: 4096,
            st_blocks: size.div_ceil(512),
            st_atime: 0,
            st_mtime: 0,
            st_ctime: 0,
        })
    }
}

impl HostIoSetfs for Remote<'_> {
    fn setfs(&mut self, _: FsKind) -> HostIoResult<(), Self> {
        Ok(())
    }
}
