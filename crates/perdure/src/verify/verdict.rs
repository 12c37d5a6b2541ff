//! What was found out about a power cut, in a word.

use serde::{Serialize, Serializer};

/// What was found out about one cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The promise held.
    Verified,
    /// The design promises nothing (`ideal`), and memory is not as at the end of any epoch that is new
    /// enough.
    Lost,
    /// Memory or a context is not as at the end of the recovered epoch.
    MemoryDiffers,
    /// A sharing group went on after it had seen something of a newer epoch than its own.
    CausalityBroken,
    /// The recovered epoch is older than one that the design has announced, or that sealed something
    /// that the outside has seen.
    OlderThanAnnounced,
    /// Something left as an epoch's that was written after its end.
    ReleasedEarly,
    /// Recovery refused the surviving image.
    RecoveryFailed,
    /// Power failed during recovery, and the next recovery ended elsewhere.
    NotConverged,
    /// The recovered state could not be resumed.
    NotResumable,
    /// With `--replica`: a replica of the primary that was cut holds no epoch as it was, or cannot go on
    /// from it.
    ReplicaDiffers,
    /// The resumed machine could not go on, or sent something again with other content.
    OutputDiffers,
    /// The checker refused what the resumed run left behind.
    CheckFailed,
    /// The resumed machine holds other memory than was recovered, or does not end as the machine that
    /// was cut would have, had it gone on.
    ResumeDiffers,
    /// With `--restart`: what was started again has not ended with exit status 0.
    RestartFailed,
    /// With `--restart --expect`: it has, and its standard output is another one.
    OutputUnexpected,
    /// The design broke its contract with the hardware, before the cut or after it: the message names the
    /// hook. Nothing can be judged then, and any cut of the run shows it.
    ContractBroken,
    /// Of what a hunt found, and of its token: without any cut, a moment came from which on nothing would
    /// ever have run again. Any cut of the run shows it.
    Deadlock,
    /// The design, or the simulator, panicked: the message has the place in the source. Or, of what a hunt
    /// found and of its token, the simulator contradicted itself, which is its own fault. Replaying the token
    /// shows it.
    Defect,
}

impl Verdict {
    /// What reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Lost => "lost",
            Self::MemoryDiffers => "memory-differs",
            Self::CausalityBroken => "causality-broken",
            Self::OlderThanAnnounced => "older-than-announced",
            Self::ReleasedEarly => "released-early",
            Self::RecoveryFailed => "recovery-failed",
            Self::NotConverged => "not-converged",
            Self::NotResumable => "not-resumable",
            Self::ReplicaDiffers => "replica-differs",
            Self::OutputDiffers => "output-differs",
            Self::CheckFailed => "check-failed",
            Self::ResumeDiffers => "resume-differs",
            Self::RestartFailed => "restart-failed",
            Self::OutputUnexpected => "output-unexpected",
            Self::ContractBroken => "contract-broken",
            Self::Deadlock => "deadlock",
            Self::Defect => "defect",
        }
    }

    /// True where a promise was broken.
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Verified | Self::Lost)
    }
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
