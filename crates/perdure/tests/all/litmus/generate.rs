//! Random litmus tests.

use perdure::litmus::program::{Action, Instruction};

use crate::rigs::Random;

/// How large a test is.
#[derive(Clone, Copy)]
pub struct Shape {
    pub threads: usize,
    pub instructions: usize,
    /// Exactly so large, or up to that.
    pub is_exact: bool,
}

impl Shape {
    pub const SMALL: Self = Self {
        threads: 3,
        instructions: 4,
        is_exact: false,
    };
    pub const TINY: Self = Self {
        threads: 3,
        instructions: 3,
        is_exact: false,
    };
    /// One thread.
    pub const LONE: Self = Self {
        threads: 1,
        instructions: 4,
        is_exact: false,
    };
    /// Two threads, and longer ones.
    pub const PAIR: Self = Self {
        threads: 2,
        instructions: 5,
        is_exact: false,
    };

    fn draw(self, random: &mut Random, most: usize) -> usize {
        if self.is_exact {
            most
        } else {
            1 + random.index(most)
        }
    }
}

const LOCATIONS: [&str; 3] = ["x", "y", "z"];

/// What a model has beside loads, stores, exchanges and branches. `L` stands for a location.
fn words(model: &str) -> &'static [&'static str] {
    match model {
        "px86" | "ptso" => &["clflush L", "clflushopt L", "clwb L", "sfence", "mfence"],
        "arm" => &["dc-cvap L", "dc-civac L", "dmb", "dsb"],
        "strand" => &["persist-barrier", "new-strand", "join-strand"],
        "spms" | "spms-reads" | "spms-thread" => {
            &["new-strand", "new-strand", "strand-sync", "persist-barrier"]
        }
        _ => &[
            "cbo.clean L",
            "cbo.flush L",
            "fence rw,rw",
            "fence w,w",
            "fence r,rw",
        ],
    }
}

/// A test of a model.
pub fn text(random: &mut Random, model: &str, shape: Shape) -> String {
    let threads: Vec<String> = (0..shape.draw(random, shape.threads))
        .map(|_| thread(random, model, shape))
        .collect();
    let lines = ["[]", "[['x', 'y']]", "[['x', 'y', 'z']]", "[]"][random.index(4)];
    let threads = threads.join(", ");
    format!("name = 'random'\nmodel = '{model}'\nsame_line = {lines}\nthreads = [{threads}]\n")
}

fn thread(random: &mut Random, model: &str, shape: Shape) -> String {
    let count = shape.draw(random, shape.instructions);
    let mut written = 0;
    let mut thread = Vec::new();
    for at in 0..count {
        let location = LOCATIONS[random.index(LOCATIONS.len())];
        // A branch may only pass over what writes no register that is read behind it.
        let reads =
            (written > 0 && random.once_in(2)).then(|| format!("r{}", random.index(written)));
        let word = match random.below(10) {
            0..3 => {
                let value = reads.unwrap_or_else(|| (1 + random.below(3)).to_string());
                format!("store {location} {value}")
            }
            3..5 => {
                written += 1;
                format!("load r{} {location}", written - 1)
            }
            5 if random.once_in(2) => {
                written += 1;
                format!("xchg r{} {location} {}", written - 1, 1 + random.below(3))
            }
            6 if written > 0 && at + 1 < count => {
                let name = ["beqz", "bnez"][random.index(2)];
                thread.push(format!("'{name} r{} 1'", random.index(written)));
                format!("store {location} {}", 4 + random.below(3))
            }
            _ => {
                let words = words(model);
                words[random.index(words.len())].replace('L', location)
            }
        };
        thread.push(format!("'{word}'"));
        if thread.len() >= count {
            break;
        }
    }
    format!("[{}]", thread.join(", "))
}

/// Puts an instruction into a thread; branches over the place pass over it, too.
pub fn insert(thread: &mut Vec<Instruction>, at: usize, instruction: Instruction) {
    for (branch, it) in thread.iter_mut().enumerate() {
        if let Action::Branch { skips, .. } = &mut it.action
            && branch < at
            && branch + *skips >= at
        {
            *skips += 1;
        }
    }
    thread.insert(at, instruction);
}
