//! A file that grows while a run goes on, up to a bound, and may be compressed as it does.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

/// A file that counts its bytes.
struct Counted {
    file: BufWriter<File>,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

enum Way {
    Plain(Counted),
    Gzip(GzEncoder<Counted>),
}

/// The file.
pub struct Output {
    way: Way,
    most_bytes: u64,
}

impl Output {
    /// A new file, of about so many bytes at most; compressed if its name ends in `.gz`.
    pub fn create(path: &Path, most_bytes: u64) -> io::Result<Self> {
        let counted = Counted {
            file: BufWriter::with_capacity(1 << 16, File::create(path)?),
            bytes: 0,
        };
        let way = if path.extension().is_some_and(|ending| ending == "gz") {
            Way::Gzip(GzEncoder::new(counted, Compression::new(3)))
        } else {
            Way::Plain(counted)
        };
        Ok(Self { way, most_bytes })
    }

    fn counted(&self) -> &Counted {
        match &self.way {
            Way::Plain(counted) => counted,
            Way::Gzip(encoder) => encoder.get_ref(),
        }
    }

    /// How many bytes the file has, but for what a compression still holds back.
    pub fn bytes(&self) -> u64 {
        self.counted().bytes
    }

    /// True if nothing more should be written than what ends it.
    pub fn is_full(&self) -> bool {
        self.bytes() >= self.most_bytes
    }

    /// Writes what is held back, and the file's end.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Way::Gzip(encoder) = &mut self.way {
            encoder.try_finish()?;
        }
        self.flush()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.way {
            Way::Plain(counted) => counted.write(bytes),
            Way::Gzip(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.way {
            Way::Plain(counted) => counted.flush(),
            Way::Gzip(encoder) => encoder.get_mut().flush(),
        }
    }
}
