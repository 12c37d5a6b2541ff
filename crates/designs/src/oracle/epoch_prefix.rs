//! *Epoch prefix*: memory and every context equal the program's state at the end of one committed epoch, no
//! older than the newest one announced or seen.

use std::io;

use perdure_hardware::arena::{Arena, Digest};

use super::{
    Beginning, Evidence, Judgement, Oracle, Promise, Remember, Witness, breaches_of,
    recovered_epoch, wrong_memory,
};

/// The oracle.
#[derive(Debug)]
pub struct EpochPrefix {
    /// What memory was at the ends of epochs.
    epochs: Vec<(u64, Digest)>,
    /// Memory at the end of one epoch, in their place.
    image: Option<(u64, io::Result<Option<Arena>>)>,
}

impl Promise for EpochPrefix {
    const NAME: &'static str = "epoch-prefix";

    fn begin(run: &Witness, beginning: Beginning, remember: Remember) -> io::Result<Self> {
        let mut oracle = Self {
            epochs: Vec::new(),
            image: None,
        };
        match remember {
            Remember::Digests => oracle.epochs.push((beginning.epoch, run.digest())),
            Remember::Image(epoch) => {
                let over = epoch <= beginning.epoch;
                let image = over.then(|| run.image()).transpose()?;
                oracle.image = Some((epoch, Ok(image)));
            }
        }
        Ok(oracle)
    }
}

impl EpochPrefix {
    /// The newest epoch with this digest.
    pub(super) fn epoch_of(&self, memory: Digest) -> Option<u64> {
        let mut ended = self.epochs.iter().rev();
        ended.find(|(_, known)| *known == memory).map(|one| one.0)
    }
}

impl Oracle for EpochPrefix {
    fn epoch_ended(&mut self, run: &Witness, epoch: u64) {
        match &mut self.image {
            None => self.epochs.push((epoch, run.digest())),
            Some((wanted, image)) if *wanted == epoch => *image = run.image().map(Some),
            Some(_) => {}
        }
    }

    fn judge(&self, evidence: &Evidence) -> Judgement {
        let epoch = match recovered_epoch(evidence, self.newest()) {
            Ok(epoch) => epoch,
            Err(judgement) => return judgement,
        };
        let mut breaches = breaches_of(epoch, evidence, evidence.announced);
        breaches.extend(wrong_memory(epoch, self.memory(epoch), evidence.memory));
        Judgement {
            epoch: Some(epoch),
            breaches,
            ..Judgement::default()
        }
    }

    fn newest(&self) -> u64 {
        self.epochs.last().map_or(0, |(epoch, _)| *epoch)
    }

    fn memory(&self, epoch: u64) -> Option<Digest> {
        let mut ended = self.epochs.iter().rev();
        ended.find(|(known, _)| *known == epoch).map(|one| one.1)
    }

    fn into_image(self: Box<Self>, run: &Witness) -> io::Result<Arena> {
        match self.image {
            Some((_, image)) => image?.map_or_else(|| run.image(), Ok),
            None => run.image(),
        }
    }
}
