use super::*;

/// What `ChampSim` makes of a record's registers, as its `inc/instruction.h` says.
fn inferred(written: [u8; 2], read: [u8; 4]) -> &'static str {
    let writes = |register| written.contains(&register);
    let reads = |register| read.contains(&register);
    let special = [0, STACK_POINTER, FLAGS, INSTRUCTION_POINTER];
    let reads_other = read.iter().any(|register| !special.contains(register));
    let (reads_sp, writes_sp) = (reads(STACK_POINTER), writes(STACK_POINTER));
    let (reads_ip, writes_ip) = (reads(INSTRUCTION_POINTER), writes(INSTRUCTION_POINTER));
    let reads_flags = reads(FLAGS);
    if !writes_ip {
        return "NOT_BRANCH";
    }
    if !reads_sp && !reads_flags && !reads_other {
        "BRANCH_DIRECT_JUMP"
    } else if !reads_sp && !reads_ip && !reads_flags && reads_other {
        "BRANCH_INDIRECT"
    } else if !reads_sp && reads_ip && !writes_sp && (reads_flags || reads_other) {
        "BRANCH_CONDITIONAL"
    } else if reads_sp && reads_ip && writes_sp && !reads_flags && !reads_other {
        "BRANCH_DIRECT_CALL"
    } else if reads_sp && reads_ip && writes_sp && !reads_flags && reads_other {
        "BRANCH_INDIRECT_CALL"
    } else if reads_sp && !reads_ip && writes_sp {
        "BRANCH_RETURN"
    } else {
        "BRANCH_OTHER"
    }
}

#[test]
fn champsim_infers_of_every_branch_what_it_is() {
    let sources = [[0, 0, 0], [2, 0, 0], [2, 2, 0], [1, 0, 0], [10, 11, 0]];
    for (class, name) in BRANCHES {
        for sources in sources {
            let destination = 1;
            let observed = Observed {
                class,
                sources,
                destination,
            };
            let (written, read) = registers(&observed);
            assert_eq!(inferred(written, read), name, "{observed:?}");
        }
    }
}

#[test]
fn nothing_else_is_a_branch() {
    for register in 0..64 {
        let observed = Observed {
            class: Class::Integer,
            sources: [register, 2, 63],
            destination: register,
        };
        let (written, read) = registers(&observed);
        assert_eq!(inferred(written, read), "NOT_BRANCH", "{observed:?}");
    }
}

#[test]
fn a_record_is_what_champsim_reads() {
    let step = Step {
        retired: 0,
        held_up: 0,
        address: 0x1_0000,
        observed: Observed {
            class: Class::Atomic,
            sources: [10, 11, 0],
            destination: 12,
        },
        written: [0x2000, 0],
        read: [0x2000, 0, 0, 0],
    };
    let record = encoded(&step, false);
    assert_eq!(record[..8], 0x1_0000u64.to_le_bytes());
    assert_eq!(record[8..16], [0, 0, 44, 0, 42, 43, 0, 0]);
    assert_eq!(record[16..24], 0x2000u64.to_le_bytes());
    assert_eq!(record[24..32], [0; 8]);
    assert_eq!(record[32..40], 0x2000u64.to_le_bytes());
    assert_eq!(record[40..], [0; 24]);
}

#[test]
fn a_hart_of_several_has_its_number_in_the_name() {
    let path = |harts| path_of(Path::new("a/run.champsim.xz"), 1, harts);
    assert_eq!(path(1), Path::new("a/run.champsim.xz"));
    assert_eq!(path(4), Path::new("a/run.hart1.champsim.xz"));
}
