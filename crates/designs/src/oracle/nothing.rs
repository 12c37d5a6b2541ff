//! *Nothing* is promised. When the power is cut all the same, the question is what an unprotected machine
//! would lose: memory may be as at the end of any epoch that is new enough, and if it is not, that breaks
//! no promise.

use std::io;

use perdure_hardware::arena::{Arena, Digest};

use super::{
    Beginning, Breach, EpochPrefix, Evidence, Fault, Judgement, Oracle, Promise, Remember, Witness,
    breaches_of,
};
use crate::design::Recovered;

/// The oracle.
#[derive(Debug)]
pub struct Nothing {
    epochs: EpochPrefix,
}

impl Promise for Nothing {
    const NAME: &'static str = "nothing";
    const BINDS: bool = false;

    fn begin(run: &Witness, beginning: Beginning, remember: Remember) -> io::Result<Self> {
        let epochs = EpochPrefix::begin(run, beginning, remember)?;
        Ok(Self { epochs })
    }
}

impl Oracle for Nothing {
    fn epoch_ended(&mut self, run: &Witness, epoch: u64) {
        self.epochs.epoch_ended(run, epoch);
    }

    fn judge(&self, evidence: &Evidence) -> Judgement {
        if let Err(why) = evidence.recovered {
            return Judgement::refused(why.to_string(), self.newest());
        }
        // Nothing says which epoch this should be; any will do.
        let epoch = self.epochs.epoch_of(evidence.memory);
        let breaches = match epoch {
            Some(epoch) => breaches_of(epoch, evidence, 0),
            None => vec![Breach {
                fault: Fault::Memory,
                judged_by_epoch: self.newest(),
                message: "memory is not as it was at the end of any epoch".into(),
            }],
        };
        Judgement {
            epoch,
            breaches,
            ..Judgement::default()
        }
    }

    fn newest(&self) -> u64 {
        self.epochs.newest()
    }

    fn memory(&self, epoch: u64) -> Option<Digest> {
        self.epochs.memory(epoch)
    }

    fn converged(&self, _first: Option<u64>, _again: &Recovered) -> bool {
        true
    }

    fn into_image(self: Box<Self>, run: &Witness) -> io::Result<Arena> {
        Box::new(self.epochs).into_image(run)
    }
}
