//! A memory module: a controller with its link and media, what waits there, and what it has counted.
//!
//! Always true here: a module knows its own bytes only, from 0 on, except in `waiting`, which stands for
//! physical addresses. [`crate::memory`] routes requests to modules and has the bytes.

use std::ops::Range;

use crate::controller::{Controller, Path, Request, Served};
use crate::line::LineNumber;
use crate::placement::Placement;
use crate::posted::PostedWrites;
use crate::specification::Specification;
use crate::time::Cycles;
use crate::waiting::Waiting;

/// What a module has done, whoever asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Row reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Row writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Of the bytes read and written, those that crossed the link.
    pub link_bytes: u64,
}

impl Counters {
    /// Name, value, unit and meaning of each.
    pub fn describe(&self) -> [(&'static str, u64, &'static str, &'static str); 5] {
        [
            ("reads", self.reads, "operations", "row reads"),
            ("read_bytes", self.read_bytes, "bytes", "bytes read"),
            ("writes", self.writes, "operations", "row writes"),
            (
                "written_bytes",
                self.written_bytes,
                "bytes",
                "bytes written",
            ),
            (
                "link_bytes",
                self.link_bytes,
                "bytes",
                "of the bytes read and written, those that crossed the link",
            ),
        ]
    }

    fn count_link(&mut self, path: Path, bytes: usize) {
        if path == Path::Link {
            self.link_bytes += bytes as u64;
        }
    }
}

/// The module.
#[derive(Debug)]
pub struct Module {
    /// What it is called in the configuration.
    pub name: String,
    /// What it has done.
    pub counters: Counters,
    pub(crate) controller: Controller,
    /// Instead of the controller, for writes.
    pub(crate) posted: Option<PostedWrites>,
    pub(crate) waiting: Waiting,
}

impl Module {
    /// The machine's modules, by their numbers in its map.
    pub fn all(specification: &Specification) -> Vec<Self> {
        vec![Self {
            name: crate::specification::MAIN_MODULE.into(),
            counters: Counters::default(),
            controller: Controller::new(specification),
            posted: PostedWrites::new(specification),
            waiting: Waiting::default(),
        }]
    }

    /// Which bank has which of its bytes.
    #[inline]
    pub fn placement(&self) -> &Placement {
        self.controller.placement()
    }

    /// When a write to a place would start if it came at `now`.
    pub(crate) fn could_start_at(&self, offset: u64, now: Cycles) -> Cycles {
        if self.posted.is_some() {
            return now;
        }
        self.controller.could_start_at(offset, now)
    }

    /// Reads so many bytes of a row, of which the request says how far they reach.
    #[inline]
    pub(crate) fn read(&mut self, request: &Request, bytes: usize, now: Cycles) -> Served {
        self.counters.reads += 1;
        self.counters.read_bytes += bytes as u64;
        self.counters.count_link(request.path, bytes);
        self.controller.read(request, now)
    }

    /// Accepts the write of so many bytes of a row, which belong to a line of the program.
    #[inline]
    pub(crate) fn write(
        &mut self,
        request: &Request,
        bytes: usize,
        home: LineNumber,
        now: Cycles,
    ) -> Served {
        self.counters.writes += 1;
        self.counters.written_bytes += bytes as u64;
        self.counters.count_link(request.path, bytes);
        match &mut self.posted {
            Some(posted) => posted.write(request.address, bytes, home, now),
            None => self.controller.write(request, now),
        }
    }

    /// When the last accepted write will be durable, for whoever waits for that.
    pub(crate) fn quiet_at(&self) -> Cycles {
        match &self.posted {
            Some(posted) => posted.quiet_at(),
            None => self.controller.quiet_at(),
        }
    }

    /// When it is done with every write that it was given.
    pub(crate) fn drained_at(&self) -> Cycles {
        match &self.posted {
            Some(posted) => posted.drained_at(),
            None => self.controller.quiet_at(),
        }
    }

    /// Says which of its bytes belong to programs and the kernel.
    pub(crate) fn interleave_home(&mut self, home: Range<u64>) {
        self.controller.interleave_home(home);
    }
}
