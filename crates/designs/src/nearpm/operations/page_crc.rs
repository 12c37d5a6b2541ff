//! `NearPM_page_crc`: the CRC-32C of a page goes into its metadata, so that a scrubber finds pages that have
//! changed by themselves, and no page crosses the link for it. The worked example of
//! `docs/add-a-near-memory-operation.md`.
//!
//! The first operand is the page, or whatever else lies together in one device; the four bytes at the second
//! one, in the same device and no part of the page, are its CRC (little end first).

use super::{Effect, Found, Makes, Operands, Operation, Plan, Site, Step};
use crate::bytes::overlap;
use crate::nearpm::command::Fault;

/// What a CRC takes.
const CRC_BYTES: u64 = 4;
/// Castagnoli's polynomial, lowest power last.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The CRC of the first operand goes to the second.
pub const PAGE_CRC: Operation = Operation {
    opcode: 0x10,
    second_bytes: |_| CRC_BYTES,
    counter: |counters| &mut counters.others,
    plan,
    effect,
};

fn plan(site: &mut Site, operands: &Operands) -> Result<Plan, Fault> {
    let crc = operands.second..operands.second + CRC_BYTES;
    if overlap(&operands.first, &crc) {
        return Err(Fault::Overlap);
    }
    // A CRC has no parts, so one device computes it: every device that is told finds that out.
    if !site.has(&operands.first) || !site.has(&crc) {
        return Err(Fault::Crosses);
    }
    Ok(Plan {
        steps: vec![Step {
            from: operands.first.clone(),
            to: crc.start,
            makes: Makes::Result(|page| crc32c(page).to_le_bytes().to_vec()),
        }],
        writes: vec![crc],
    })
}

/// As hardware has it: a byte at a time, by a table.
fn crc32c(bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|byte| {
        (0..8).fold(byte as u32, |rest, _| {
            (rest >> 1) ^ if rest & 1 == 1 { POLYNOMIAL } else { 0 }
        })
    });
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ table[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(!0, step)
}

/// As mathematics has it: the rest of a division, bit by bit, where the plan's is a table's.
fn effect(found: &mut Found, operands: &Operands) -> Effect {
    let bytes = operands.first.end - operands.first.start;
    let page = (found.read)(operands.first.start, bytes as usize);
    let mut rest = u32::MAX;
    for bit in page
        .iter()
        .flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1))
    {
        let subtracts = rest & 1 != u32::from(bit);
        rest >>= 1;
        if subtracts {
            rest ^= POLYNOMIAL;
        }
    }
    Effect::Leaves(vec![(operands.second, (!rest).to_le_bytes().to_vec())])
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::nearpm::Geometry;

    /// Of RFC 3720, B.4, and the CRC's usual check.
    #[test]
    fn a_crc_is_what_others_say() {
        let counting: Vec<u8> = (0..32).collect();
        for (bytes, expected) in [
            (&b"123456789"[..], 0xe306_9283),
            (&[0; 32], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&counting, 0x46dd_794e),
        ] {
            assert_eq!(crc32c(bytes), expected);
            let operands = Operands {
                first: 0..bytes.len() as u64,
                second: 64,
                pool: 0..128,
            };
            let mut found = Found {
                pieces: &|range| vec![range.clone()],
                together: &|_, _| true,
                read: &mut |at, length| bytes[at as usize..][..length].to_vec(),
            };
            let written = effect(&mut found, &operands);
            let expected = vec![(64, u32::to_le_bytes(expected).to_vec())];
            assert_eq!(written, Effect::Leaves(expected));
        }
    }

    #[test]
    fn what_no_device_can_do_alone_is_refused_by_all() {
        let geometry = Geometry {
            region: 0..1 << 20,
            granule: 16 << 10,
            devices: 2,
        };
        let planned = |first: Range<u64>, second| {
            let of = |device| {
                let mut site = Site {
                    geometry: &geometry,
                    device,
                    read: &mut |_, length| vec![0; length],
                };
                let (pool, first) = (geometry.region.clone(), first.clone());
                plan(
                    &mut site,
                    &Operands {
                        first,
                        second,
                        pool,
                    },
                )
                .map(|plan| plan.steps.len())
            };
            [of(0), of(1)]
        };
        let (crosses, overlaps) = (Err(Fault::Crosses), Err(Fault::Overlap));
        assert_eq!(planned(0..4096, 4096), [Ok(1), crosses]);
        assert_eq!(planned(0..4096, 16 << 10), [crosses; 2]);
        assert_eq!(planned(12_388..16_484, 0), [crosses; 2]);
        assert_eq!(planned(0..4096, (16 << 10) - 2), [crosses; 2]);
        assert_eq!(planned(64..4160, 4156), [overlaps; 2]);
    }
}
