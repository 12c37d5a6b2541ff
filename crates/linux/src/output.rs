//! Standard output and error on their way out.
//!
//! Always true: a byte leaves only after the epoch in which the guest wrote it is persisted, and
//! its program and its offset since that program's start go with it.

use serde::{Deserialize, Serialize};

use crate::release::Release;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Segment {
    program: u32,
    descriptor: u8,
    offset: u64,
    /// The epoch that wrote it, once that has committed.
    epoch: Option<u64>,
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
}

/// Pending stream output, in the order in which it was written.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Output {
    /// Bytes ever written to standard output and standard error, by program.
    written: Vec<[u64; 2]>,
    pending: Vec<Segment>,
    pending_bytes: u64,
}

impl Output {
    /// The streams of so many programs.
    pub fn new(programs: usize) -> Self {
        Self {
            written: vec![[0; 2]; programs],
            ..Self::default()
        }
    }

    /// Takes bytes that a program wrote to descriptor 1 or 2.
    pub fn write(&mut self, program: u32, descriptor: u8, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let written = &mut self.written[program as usize][usize::from(descriptor == 2)];
        let offset = *written;
        *written += bytes.len() as u64;
        self.pending_bytes += bytes.len() as u64;
        match self.pending.last_mut() {
            Some(last)
                if last.program == program
                    && last.descriptor == descriptor
                    && last.epoch.is_none() =>
            {
                last.bytes.extend_from_slice(bytes);
            }
            _ => self.pending.push(Segment {
                program,
                descriptor,
                offset,
                epoch: None,
                bytes: bytes.to_vec(),
            }),
        }
    }

    /// Bytes that all programs have written in all.
    pub fn written_bytes(&self) -> u64 {
        let written = self.written.as_flattened().iter();
        written.fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// Bytes that have not left.
    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    /// True if what was written last is of no epoch that has committed.
    pub fn is_unsealed(&self) -> bool {
        self.pending.last().is_some_and(|last| last.epoch.is_none())
    }

    /// What was written so far belongs to `epoch` or an earlier one.
    pub fn seal(&mut self, epoch: u64) {
        for segment in self.pending.iter_mut().rev() {
            if segment.epoch.is_some() {
                break;
            }
            segment.epoch = Some(epoch);
        }
    }

    /// Bytes ever written to standard output and standard error, by program.
    pub fn written(&self) -> &[[u64; 2]] {
        &self.written
    }

    /// Hands out what the epochs up to `persisted` wrote, each record with the epoch that sealed it.
    pub fn release(&mut self, persisted: u64) -> Vec<(u64, Release)> {
        let leaves = |segment: &Segment| segment.epoch.is_some_and(|epoch| epoch <= persisted);
        let count = self
            .pending
            .iter()
            .take_while(|segment| leaves(segment))
            .count();
        let out: Vec<Segment> = self.pending.drain(..count).collect();
        out.into_iter()
            .map(|segment| {
                self.pending_bytes -= segment.bytes.len() as u64;
                let release = Release::Stream {
                    program: segment.program,
                    descriptor: segment.descriptor,
                    offset: segment.offset,
                    bytes: segment.bytes,
                };
                (segment.epoch.unwrap_or(persisted), release)
            })
            .collect()
    }

    /// The counts agree with the bytes, for so many programs; false for damaged state.
    pub fn is_valid(&self, programs: usize) -> bool {
        let sum: u64 = self
            .pending
            .iter()
            .map(|segment| segment.bytes.len() as u64)
            .sum();
        sum == self.pending_bytes
            && self.pending.iter().all(|s| matches!(s.descriptor, 1 | 2))
            && self.pending.iter().all(|s| (s.program as usize) < programs)
            && self.written.len() == programs
            && self
                .written
                .as_flattened()
                .iter()
                .all(|&written| written < 1 << 62)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_once_their_epoch_is_persisted_and_in_order() {
        let mut output = Output::new(2);
        output.write(0, 1, b"ab");
        output.write(0, 2, b"x");
        output.seal(7);
        output.write(0, 1, b"cd");
        assert_eq!(output.release(6), []);
        let stream = |epoch: u64, descriptor, offset, bytes: &[u8]| {
            let bytes = bytes.to_vec();
            let release = Release::Stream {
                program: 0,
                descriptor,
                offset,
                bytes,
            };
            (epoch, release)
        };
        assert_eq!(
            output.release(7),
            [stream(7, 1, 0, b"ab"), stream(7, 2, 0, b"x")]
        );
        assert_eq!(
            output.release(9),
            [],
            "an unsealed byte belongs to no epoch yet"
        );
        output.seal(8);
        assert_eq!(output.release(9), [stream(8, 1, 2, b"cd")]);
        output.write(1, 1, b"e");
        output.write(0, 1, b"f");
        output.seal(10);
        let second = Release::Stream {
            program: 1,
            descriptor: 1,
            offset: 0,
            bytes: b"e".to_vec(),
        };
        assert_eq!(output.release(10), [(10, second), stream(10, 1, 4, b"f")]);
        assert_eq!(output.written(), [[5, 1], [1, 0]]);
        assert_eq!(output.pending_bytes(), 0);
        assert!(output.is_valid(2) && !output.is_valid(1));
    }
}
