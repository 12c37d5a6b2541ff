//! Pseudo-terminals: what stands between the two ends, as Linux's line discipline has it.
//!
//! Always true: `lines` are the lengths of the complete lines at the front of `input`; what follows
//! them is being edited. Without canonical mode there are none, and all of `input` can be read.
//! Nothing here knows processes: what a character asks of them is told to the caller.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::InodeId;

/// Bytes that wait on their way to a program.
const INPUT_BYTES: usize = 4096;
/// Bytes that wait on their way to whoever holds the master.
const OUTPUT_BYTES: usize = 64 << 10;
/// Pseudo-terminals that there may be.
pub(crate) const TERMINALS_MAX: usize = 1024;

const ISTRIP: u32 = 0o40;
const INLCR: u32 = 0o100;
const IGNCR: u32 = 0o200;
const ICRNL: u32 = 0o400;
const IXON: u32 = 0o2000;

const OPOST: u32 = 1;
const ONLCR: u32 = 4;
const OCRNL: u32 = 8;
const ONLRET: u32 = 0o40;

const ISIG: u32 = 1;
const ICANON: u32 = 2;
const ECHO: u32 = 8;
const ECHOE: u32 = 0o20;
const ECHOK: u32 = 0o40;
const ECHONL: u32 = 0o100;
const NOFLSH: u32 = 0o200;
const TOSTOP: u32 = 0o400;
const ECHOCTL: u32 = 0o1000;
const ECHOKE: u32 = 0o4000;
const IEXTEN: u32 = 0o100_000;

const VINTR: usize = 0;
const VQUIT: usize = 1;
const VERASE: usize = 2;
const VKILL: usize = 3;
const VEOF: usize = 4;
const VTIME: usize = 5;
const VMIN: usize = 6;
pub(crate) const VSTART: usize = 8;
pub(crate) const VSTOP: usize = 9;
const VSUSP: usize = 10;
const VEOL: usize = 11;
const VREPRINT: usize = 12;
const VWERASE: usize = 14;
const VLNEXT: usize = 15;
const VEOL2: usize = 16;

const SIGINT: u8 = 2;
const SIGQUIT: u8 = 3;
const SIGTSTP: u8 = 20;

/// `struct termios`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    input: u32,
    output: u32,
    control: u32,
    local: u32,
    discipline: u8,
    pub special: [u8; 19],
}

impl Default for Settings {
    fn default() -> Self {
        const CS8_CREAD_38400: u32 = 0o277;
        let mut special = [0; 19];
        let control = [3, 0x1c, 0x7f, 0x15, 4, 0, 1, 0, 0x11, 0x13, 0x1a, 0];
        special[..12].copy_from_slice(&control);
        special[VREPRINT..=VLNEXT].copy_from_slice(&[0x12, 0x0f, 0x17, 0x16]);
        Self {
            input: ICRNL | IXON,
            output: OPOST | ONLCR,
            control: CS8_CREAD_38400,
            local: ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
            discipline: 0,
            special,
        }
    }
}

impl Settings {
    pub const BYTES: usize = 36;
    pub const OLD_BYTES: usize = 18;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (index, word) in [self.input, self.output, self.control, self.local]
            .into_iter()
            .enumerate()
        {
            bytes[4 * index..4 * index + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[16] = self.discipline;
        bytes[17..36].copy_from_slice(&self.special);
        bytes
    }

    /// `struct termio`: the low halves of the flags, and the first special characters.
    pub fn to_old_bytes(self) -> [u8; Self::OLD_BYTES] {
        let all = self.to_bytes();
        let mut bytes = [0; Self::OLD_BYTES];
        for (old, new) in bytes.chunks_exact_mut(2).zip(all[..16].chunks_exact(4)) {
            old.copy_from_slice(&new[..2]);
        }
        bytes[8..17].copy_from_slice(&all[16..25]);
        bytes
    }

    /// These settings, but for what stands in a `struct termio`.
    pub fn with_old_bytes(self, bytes: &[u8; Self::OLD_BYTES]) -> Self {
        let mut all = self.to_bytes();
        for (old, new) in bytes.chunks_exact(2).zip(all[..16].chunks_exact_mut(4)) {
            new[..2].copy_from_slice(old);
        }
        all[16..25].copy_from_slice(&bytes[8..17]);
        Self::from_bytes(&all)
    }

    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |index: usize| {
            let at = 4 * index;
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let mut special = [0; 19];
        special.copy_from_slice(&bytes[17..36]);
        Self {
            input: word(0),
            output: word(1),
            control: word(2),
            local: word(3),
            discipline: bytes[16],
            special,
        }
    }
}

/// A pair of ends.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Terminal {
    pub settings: Settings,
    /// `struct winsize`: rows, columns, and the same in pixels.
    pub window: [u16; 4],
    pub input: VecDeque<u8>,
    pub lines: VecDeque<u32>,
    pub output: VecDeque<u8>,
    /// The next character is taken as it is.
    pub quotes: bool,
    /// Output is held back, as by ^S.
    pub held: bool,
    /// The slave cannot be opened.
    pub locked: bool,
    /// `TIOCPKT`.
    pub packets: bool,
    pub has_master: bool,
    pub slaves: u32,
    /// The last slave was closed.
    pub left: bool,
    /// The name of the slave end.
    pub inode: InodeId,
    /// Whose controlling terminal it is.
    pub session: Option<u32>,
    /// The process group that its signals go to.
    pub foreground: u32,
    /// Counts changes.
    pub activity: u64,
}

impl Terminal {
    fn has(&self, flag: u32) -> bool {
        self.settings.local & flag != 0
    }

    fn is_special(&self, byte: u8, index: usize) -> bool {
        byte != 0 && self.settings.special[index] == byte
    }

    pub fn is_canonical(&self) -> bool {
        self.has(ICANON)
    }

    /// Programs in the background may not write.
    pub fn stops_background_output(&self) -> bool {
        self.has(TOSTOP)
    }

    /// How many bytes a read waits for, and how long: tenths of a second, 0 for ever.
    pub fn least_and_time(&self) -> (usize, u64) {
        let special = &self.settings.special;
        (usize::from(special[VMIN]), u64::from(special[VTIME]))
    }

    /// True if there is something to read.
    pub fn has_input(&self) -> bool {
        if self.is_canonical() {
            !self.lines.is_empty()
        } else {
            self.input.len() >= self.least_and_time().0.max(1)
        }
    }

    /// How much there is to read at the slave and at the master: of a terminal that edits, lines.
    pub fn arrived(&self) -> [usize; 2] {
        let input = if self.is_canonical() {
            self.lines.len()
        } else {
            self.input.len()
        };
        [input, self.output.len()]
    }

    /// How many bytes a read of so many gets, at most.
    pub fn readable_bytes(&self, wanted: usize) -> usize {
        let most = if self.is_canonical() {
            self.lines.front().map_or(0, |&line| line as usize)
        } else {
            self.input.len()
        };
        most.min(wanted).min(self.input.len())
    }

    /// Takes what was read.
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.input.len());
        self.input.drain(..count);
        if let Some(line) = self.lines.front_mut() {
            *line = line.saturating_sub(count as u32);
            if *line == 0 {
                self.lines.pop_front();
            }
        }
        self.activity += 1;
    }

    /// The length of what is being edited.
    fn edited(&self) -> usize {
        let complete: usize = self.lines.iter().map(|&line| line as usize).sum();
        self.input.len().saturating_sub(complete)
    }

    /// How many bytes the master may write now.
    pub fn input_room(&self) -> usize {
        // A line that is too long is cut, so that its end is always seen.
        if self.is_canonical() && self.lines.is_empty() {
            return INPUT_BYTES;
        }
        INPUT_BYTES.saturating_sub(self.input.len())
    }

    /// How many bytes the slave may write now, each of which can become two.
    pub fn output_room(&self) -> usize {
        if self.held {
            0
        } else {
            OUTPUT_BYTES.saturating_sub(self.output.len()) / 2
        }
    }

    pub fn set(&mut self, settings: Settings) {
        let was = self.is_canonical();
        self.settings = settings;
        match (was, self.is_canonical()) {
            (true, false) => self.lines.clear(),
            (false, true) if !self.input.is_empty() => {
                self.lines.push_back(self.input.len() as u32);
            }
            _ => {}
        }
        if settings.input & IXON == 0 {
            self.held = false;
        }
        self.activity += 1;
    }

    /// `TCFLSH`.
    pub fn flush(&mut self, input: bool, output: bool) {
        if input {
            self.input.clear();
            self.lines.clear();
        }
        if output {
            self.output.clear();
        }
        self.activity += 1;
    }

    /// A byte that the program writes.
    pub fn put(&mut self, byte: u8) {
        let flags = self.settings.output;
        self.activity += 1;
        if flags & OPOST != 0 {
            match byte {
                b'\n' if flags & ONLCR != 0 && flags & ONLRET == 0 => self.output.push_back(b'\r'),
                b'\r' if flags & OCRNL != 0 => {
                    self.output.push_back(b'\n');
                    return;
                }
                _ => {}
            }
        }
        self.output.push_back(byte);
    }

    fn is_shown_as_two(&self, byte: u8) -> bool {
        self.has(ECHOCTL) && byte.is_ascii_control() && byte != b'\t' && byte != b'\n'
    }

    fn echo(&mut self, byte: u8) {
        if self.output.len() + 2 > OUTPUT_BYTES {
            return;
        }
        if self.is_shown_as_two(byte) {
            self.put(b'^');
            self.put(byte ^ 0x40);
        } else {
            self.put(byte);
        }
    }

    /// A byte that is typed; the signal that it sends to the foreground, if it does.
    pub fn receive(&mut self, byte: u8) -> Option<u8> {
        let flags = self.settings.input;
        self.activity += 1;
        let mut byte = if flags & ISTRIP != 0 {
            byte & 0x7f
        } else {
            byte
        };
        if std::mem::take(&mut self.quotes) {
            if self.has(ECHO) {
                self.echo(byte);
            }
            self.append(byte);
            return None;
        }
        if flags & IXON != 0 {
            if self.is_special(byte, VSTART) {
                self.held = false;
                return None;
            }
            if self.is_special(byte, VSTOP) {
                self.held = true;
                return None;
            }
        }
        if self.has(ISIG) {
            let signals = [(VINTR, SIGINT), (VQUIT, SIGQUIT), (VSUSP, SIGTSTP)];
            let sent = signals
                .into_iter()
                .find(|&(index, _)| self.is_special(byte, index));
            if let Some((_, signal)) = sent {
                if !self.has(NOFLSH) {
                    self.flush(true, false);
                }
                self.held = false;
                if self.has(ECHO) {
                    self.echo(byte);
                }
                return Some(signal);
            }
        }
        match byte {
            b'\r' if flags & IGNCR != 0 => return None,
            b'\r' if flags & ICRNL != 0 => byte = b'\n',
            b'\n' if flags & INLCR != 0 => byte = b'\r',
            _ => {}
        }
        if self.is_canonical() && self.edit(byte) {
            return None;
        }
        if self.has(ECHO) {
            self.echo(byte);
        }
        self.append(byte);
        None
    }

    /// Canonical mode: true if the character has been dealt with.
    fn edit(&mut self, byte: u8) -> bool {
        let extended = self.has(IEXTEN);
        if self.is_special(byte, VERASE) {
            self.erase(1);
        } else if self.is_special(byte, VWERASE) && extended {
            let start = self.input.len() - self.edited();
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            let edited: Vec<u8> = self.input.range(start..).copied().collect();
            let after_word = edited.iter().rposition(is_word).map_or(0, |at| at + 1);
            let word = edited[..after_word].iter().rev().take_while(|b| is_word(b));
            let keep = after_word - word.count();
            self.erase(edited.len() - keep);
        } else if self.is_special(byte, VKILL) {
            let all = self.edited();
            if self.has(ECHOKE) && self.has(ECHOE) || !self.has(ECHO) {
                self.erase(all);
            } else {
                self.input.truncate(self.input.len() - all);
                self.echo(byte);
                if self.has(ECHOK) {
                    self.put(b'\n');
                }
            }
        } else if self.is_special(byte, VLNEXT) && extended {
            self.quotes = true;
            if self.has(ECHO) && self.has(ECHOCTL) {
                self.put(b'^');
                self.put(8);
            }
        } else if self.is_special(byte, VREPRINT) && extended && self.has(ECHO) {
            self.echo(byte);
            self.put(b'\n');
            let start = self.input.len() - self.edited();
            let edited: Vec<u8> = self.input.range(start..).copied().collect();
            for byte in edited {
                self.echo(byte);
            }
        } else if self.is_special(byte, VEOF) {
            self.complete();
        } else if byte == b'\n' {
            if self.has(ECHO) || self.has(ECHONL) {
                self.put(byte);
            }
            self.append(byte);
            self.complete();
        } else if self.is_special(byte, VEOL) || self.is_special(byte, VEOL2) && extended {
            if self.has(ECHO) {
                self.echo(byte);
            }
            self.append(byte);
            self.complete();
        } else {
            return false;
        }
        true
    }

    /// Takes back the last characters of what is being edited.
    fn erase(&mut self, count: usize) {
        for _ in 0..count.min(self.edited()) {
            let Some(byte) = self.input.pop_back() else {
                return;
            };
            if !self.has(ECHO) {
                continue;
            }
            if !self.has(ECHOE) {
                self.echo(self.settings.special[VERASE]);
                continue;
            }
            let columns = if self.is_shown_as_two(byte) { 2 } else { 1 };
            for _ in 0..columns {
                for byte in [8, b' ', 8] {
                    self.put(byte);
                }
            }
        }
    }

    fn append(&mut self, byte: u8) {
        // The last place is kept for the end of the line.
        let ends_line = self.is_canonical() && byte == b'\n';
        if self.input.len() + 1 < INPUT_BYTES || ends_line {
            self.input.push_back(byte);
        }
    }

    fn complete(&mut self) {
        let line = self.edited() as u32;
        self.lines.push_back(line);
    }

    /// What a saved state says may be so.
    pub fn is_valid(&self) -> bool {
        let complete: u64 = self.lines.iter().map(|&line| u64::from(line)).sum();
        complete <= self.input.len() as u64
            && (self.lines.is_empty() || self.is_canonical())
            && self.input.len() <= 2 * INPUT_BYTES
            && self.output.len() <= 2 * OUTPUT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(terminal: &mut Terminal, text: &str) -> Vec<u8> {
        text.bytes()
            .filter_map(|byte| terminal.receive(byte))
            .collect()
    }

    fn shown(terminal: &mut Terminal) -> String {
        let bytes: Vec<u8> = terminal.output.drain(..).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn lines_are_edited() {
        let mut terminal = Terminal::default();
        assert_eq!(typed(&mut terminal, "abx\x7fc def\x17g\r"), []);
        assert_eq!(
            shown(&mut terminal),
            "abx\x08 \x08c def\x08 \x08\x08 \x08\x08 \x08g\r\n"
        );
        assert_eq!(terminal.readable_bytes(100), 6);
        terminal.consume(6);
        assert!(!terminal.has_input());
        typed(&mut terminal, "half\x15\x16\x04z\x04");
        assert_eq!(terminal.input, [4, b'z']);
        assert_eq!(terminal.lines, [2]);
        typed(&mut terminal, "\x04");
        assert_eq!(terminal.lines, [2, 0]);
        assert!(terminal.is_valid());
    }

    #[test]
    fn signals_drop_what_was_typed() {
        let mut terminal = Terminal::default();
        assert_eq!(typed(&mut terminal, "lost\x03kept\x1a"), [2, 20]);
        assert_eq!(shown(&mut terminal), "lost^Ckept^Z");
        assert!(terminal.input.is_empty());
    }

    #[test]
    fn a_long_line_keeps_its_end() {
        let mut terminal = Terminal::default();
        typed(&mut terminal, &"y".repeat(5000));
        typed(&mut terminal, "\n");
        assert_eq!(terminal.lines, [4096]);
    }
}
