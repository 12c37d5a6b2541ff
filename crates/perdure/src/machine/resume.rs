//! A machine that goes on in another's place: from what recovery brought back, or from a golden image.
//!
//! Always true here: the new machine has what is in the image and in the [`Resumption`], cold caches,
//! and nothing else; clocks go on from where the old harts stood and never backwards.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use perdure_designs::{Epochs, Facts};
use perdure_hardware::arena::{Arena, PAGE_BYTES};
use perdure_hardware::line::{LINE_BYTES, Line, LineNumber};
use perdure_linux::HostView;

use super::assemble::{Parts, hardware_of, layout_of};
use super::output::spool_failed;
use super::{Ended, EpochEnd, Machine};
use crate::configuration::Configuration;
use crate::context::{Found, MachineRecord, SAVED_BYTES, Saved, SavedAt, restore};
use crate::error::Error;
use crate::kernel_ports::DevicePort;
use crate::losses::{self, Lost};
use crate::mistakes::Mistake;
use crate::outside::Outside;
use crate::source::{Engine, Source};

/// What a machine that goes on in another's place goes on with.
pub struct Resumption<C = Engine> {
    /// At whose end it goes on.
    pub epoch: u64,
    /// What has left so far.
    pub outside: Outside,
    /// The engine, or what else is chosen of a source.
    pub engine: C,
    /// The design's planted bug.
    pub bug: Option<&'static str>,
    /// The machine's own.
    pub mistake: Option<Mistake>,
}

/// A recovered image.
#[derive(Clone, Debug)]
pub struct Image {
    /// Memory as the resumed program sees it.
    pub memory: Arena,
    /// What the NVM has of lines that recovery loaded into DRAM.
    pub behind: BTreeMap<LineNumber, Line>,
}

impl<S: Source> Machine<S> {
    /// Goes on from a recovered image.
    pub fn resume(
        configuration: &Arc<Configuration>,
        image: Image,
        host: HostView,
        resumption: Resumption<S::Choice>,
    ) -> Result<Self, Error> {
        let harts = configuration.specification.harts;
        let layout = layout_of(&configuration.specification);
        let read = |address, length| image.memory.slice(address, length).to_vec();
        let forgets = |found: &mut Found| match resumption.mistake {
            Some(Mistake::Forgets(lost)) => losses::without(found, lost).map(|_| ()),
            _ => Ok(()),
        };
        let saved = restore(read, &layout, harts, host, forgets);
        let saved = saved.and_then(|saved| saved.in_time(&configuration.specification.core));
        let saved = saved.map_err(|message| {
            Error::Request(format!("the recovered state is unusable: {message}"))
        })?;
        Self::go_on_from(configuration, image, saved, resumption)
    }

    /// True if a recovered image holds something of what could be lost. What cannot even be read
    /// without it does.
    pub fn saves(&self, image: &Image, lost: Lost) -> bool {
        let read = |address, length| image.memory.slice(address, length).to_vec();
        losses::holds(read, &self.layout, self.harts.len(), lost).unwrap_or(true)
    }

    /// Goes on from a golden image, with the kernel and the contexts of that epoch's end.
    pub fn fork(
        configuration: &Arc<Configuration>,
        image: Image,
        end: EpochEnd,
        resumption: Resumption<S::Choice>,
    ) -> Result<Self, Error> {
        let incomplete = || Error::Defect(format!("epoch {} had not ended", end.epoch));
        let (kernel, skipped_ns) = end.kernel.ok_or_else(incomplete)?;
        let harts: Option<Vec<_>> = end.harts.into_iter().collect();
        let (harts, times): (_, Vec<SavedAt>) = harts.ok_or_else(incomplete)?.into_iter().unzip();
        let record = MachineRecord::new(end.epoch, &kernel.save(), skipped_ns);
        let saved = Saved::of(record, harts, &times, kernel);
        Self::go_on_from(configuration, image, saved, resumption)
    }

    fn go_on_from(
        configuration: &Arc<Configuration>,
        image: Image,
        saved: Saved,
        resumption: Resumption<S::Choice>,
    ) -> Result<Self, Error> {
        let Resumption {
            epoch,
            outside,
            engine,
            bug,
            mistake,
        } = resumption;
        let specification = configuration.specification.clone();
        let harts = specification.harts;
        let layout = layout_of(&specification);
        let (arena, behind) = (image.memory, image.behind);
        let (design, bytes) = (configuration.design, saved.record.kernel_bytes);
        let saved_image = saved_image(design, &arena, &layout.kernel, bytes);
        let saved_contexts = (0..harts)
            .map(|hart| {
                let address = layout.context(hart);
                arena.slice(address, SAVED_BYTES).to_vec()
            })
            .collect();
        let programs = saved.kernel.program_reports().len();
        let mut hardware = hardware_of(specification, &layout, arena);
        hardware.memory.load_dram(behind);
        let parts = Parts {
            hardware,
            layout,
            kernel: saved.kernel,
            contexts: saved.harts,
            saved_image,
            saved_contexts,
            skipped_ns: saved.record.skipped_ns,
            start: saved.at.cycles,
            programs,
        };
        let mut machine = Self::assemble(configuration, parts, epoch, None, engine, bug)?;
        machine.mistake = mistake;
        // Harts that stood still at different times: nobody's clock goes backwards.
        machine.skipped_ns += saved.at.clock_ns.saturating_sub(machine.clock_ns());
        machine.outside = outside;
        if mistake == Some(Mistake::ResumesOtherMemory) {
            let last = machine.layout.frames.end - LINE_BYTES as u64;
            machine.hardware.memory.arena.write(last, &[1]);
        }
        // What was persisted but may not have left before the cut leaves now; a duplicate is
        // recognised outside.
        machine.let_out(epoch, Mistake::GarblesAgain);
        let mut port = DevicePort(&mut machine.hardware, &*machine.design);
        let spool = machine.outside.spool.clone();
        let files = machine.kernel.release_files(&mut port, &spool);
        let files = files.map_err(spool_failed)?;
        for file in files {
            machine.outside.receive(epoch, file);
        }
        if let Some(report) = machine.kernel.exited() {
            machine.ended = Some(Ended {
                report: report.clone(),
                at: 0,
                epoch,
            });
            machine.finished = true;
        }
        Ok(machine)
    }
}

/// The kernel's state as it was saved. Where sharing groups save theirs, each line is held against what lies
/// there, of earlier, longer states, too.
fn saved_image(design: &Facts, arena: &Arena, region: &Range<u64>, mut bytes: u64) -> Vec<u8> {
    if design.epochs == Epochs::ByGroup {
        let pages = arena.written_pages().take_while(|&page| page < region.end);
        let ends = pages.map(|page| (page + PAGE_BYTES as u64).min(region.end));
        let written = ends.last().unwrap_or(0).saturating_sub(region.start);
        bytes = bytes.max(written);
    }
    arena.slice(region.start, bytes as usize).to_vec()
}
