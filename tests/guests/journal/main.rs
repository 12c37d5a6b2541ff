//! End-to-end test: a journal in a pool, in Rust, for `perdure check`.
//!
//! ```text
//! journal POOL ENTRIES [no-flush]    recovers, and appends so many
//! journal POOL recover               recovers
//! ```
//!
//! An entry is durable before the count that leads to it; with `no-flush` it is not. Recovery ends with 3 if
//! an entry is not what was appended.

use std::arch::asm;
use std::ffi::c_void;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::process::exit;

unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        bytes: usize,
        how: i32,
        flags: i32,
        file: i32,
        from: i64,
    ) -> *mut c_void;
}

const BYTES: usize = 4 * 4096;
const WORDS_OF_LINE: usize = 8;

struct Journal {
    words: &'static mut [u64],
    flushes: bool,
}

impl Journal {
    fn open(path: &str, flushes: bool) -> Self {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let file = file.expect("a pool");
        file.set_len(BYTES as u64).expect("room");
        // SAFETY: a file of so many bytes is mapped, for reading and writing, shared.
        let words = unsafe {
            let start = mmap(std::ptr::null_mut(), BYTES, 3, 1, file.as_raw_fd(), 0);
            assert!(start as isize != -1, "cannot map {path}");
            std::slice::from_raw_parts_mut(start.cast(), BYTES / 8)
        };
        Self { words, flushes }
    }

    #[inline(never)]
    fn persist(&mut self, word: usize) {
        let address = &raw const self.words[word];
        // SAFETY: a clean of a line that is mapped (cbo.clean), and a fence.
        unsafe {
            asm!(".insn i 0x0f, 2, x0, {0}, 1", "fence rw, rw", in(reg) address);
        }
    }

    #[inline(never)]
    fn write(&mut self, number: u64) {
        let word = WORDS_OF_LINE * (1 + number as usize);
        self.words[word] = 3 * number + 1; // the entry
        if self.flushes {
            self.persist(word);
        }
    }

    #[inline(never)]
    fn append(&mut self) {
        let number = self.words[0];
        self.write(number);
        self.words[0] = number + 1;
        self.persist(0);
    }

    fn recover(&self) {
        for number in 0..self.words[0] {
            if self.words[WORDS_OF_LINE * (1 + number as usize)] != 3 * number + 1 {
                eprintln!("journal: entry {number} is not what was appended");
                exit(3);
            }
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, path, what, mistake @ ..] = words.as_slice() else {
        eprintln!("usage: journal POOL ENTRIES [no-flush] | journal POOL recover");
        exit(2);
    };
    let mut journal = Journal::open(path, mistake.is_empty());
    journal.recover();
    for _ in 0..what.parse().unwrap_or(0) {
        journal.append();
    }
}
