//! What a test's design has of the worked example that it wraps, in its first field.

/// The methods of one of the traits in which it is the worked example, inside the `impl` of that trait.
macro_rules! as_the_worked_example {
    (Policy) => {
        fn evict(&mut self, hardware: &mut Hardware, eviction: &Eviction, now: Cycles) -> Evicted {
            self.0.evict(hardware, eviction, now)
        }

        fn fired(&mut self, hardware: &mut Hardware, event: u32, now: Cycles) {
            self.0.fired(hardware, event, now);
        }
    };
    (EpochNumbers) => {
        fn executing_epoch(&self) -> u64 {
            self.0.executing_epoch()
        }

        fn announced_epoch(&self) -> u64 {
            self.0.announced_epoch()
        }
    };
    (MachineEpochs) => {
        fn end_epoch(&mut self, hardware: &mut Hardware, urgency: Urgency, now: Cycles) -> Cycles {
            self.0.end_epoch(hardware, urgency, now)
        }
    };
    (Design) => {
        const PLANTED_BUGS: &'static [PlantedBug] = &[];
        type Epochs = OfMachine;
        type Promise = <FlushAtEpochEnd as Design>::Promise;
        type Parameters = <FlushAtEpochEnd as Design>::Parameters;
        type Counters = <FlushAtEpochEnd as Design>::Counters;

        fn phase(&self) -> &'static str {
            self.0.phase()
        }

        fn counters(&self) -> Self::Counters {
            self.0.counters()
        }

        fn paths(hardware: &Statistics, own: &Self::Counters) -> Vec<(&'static str, u64)> {
            FlushAtEpochEnd::paths(hardware, own)
        }
    };
}
pub(crate) use as_the_worked_example;
