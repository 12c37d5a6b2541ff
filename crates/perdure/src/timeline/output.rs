//! A file that grows while a run goes on, up to a bound, and may be compressed as it does.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzWriter};

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
    /// Gone when its end is written, of which there are so many bytes.
    Xz(Option<Box<XzWriter<Counted>>>, u64),
}

/// A level at which 64-byte records shrink to a fraction, and which keeps up with the simulation.
const XZ_PRESET: u32 = 1;

/// The file.
pub struct Output {
    way: Way,
    most_bytes: u64,
}

impl Output {
    /// A new file, of about so many bytes at most; compressed if its name ends in `.gz` or `.xz`.
    pub fn create(path: &Path, most_bytes: u64) -> io::Result<Self> {
        let counted = Counted {
            file: BufWriter::with_capacity(1 << 16, File::create(path)?),
            bytes: 0,
        };
        let way = match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => Way::Gzip(GzEncoder::new(counted, Compression::new(3))),
            Some("xz") => {
                let writer = XzWriter::new(counted, XzOptions::with_preset(XZ_PRESET))?;
                Way::Xz(Some(Box::new(writer)), 0)
            }
            _ => Way::Plain(counted),
        };
        Ok(Self { way, most_bytes })
    }

    /// How many bytes the file has, but for what a compression still holds back.
    pub fn bytes(&self) -> u64 {
        match &self.way {
            Way::Plain(counted) => counted.bytes,
            Way::Gzip(encoder) => encoder.get_ref().bytes,
            Way::Xz(Some(writer), _) => writer.inner().bytes,
            Way::Xz(None, bytes) => *bytes,
        }
    }

    /// True if nothing more should be written than what ends it.
    pub fn is_full(&self) -> bool {
        self.bytes() >= self.most_bytes
    }

    /// Writes what is held back, and the file's end.
    pub fn finish(&mut self) -> io::Result<()> {
        match &mut self.way {
            Way::Plain(_) => {}
            Way::Gzip(encoder) => encoder.try_finish()?,
            Way::Xz(writer, bytes) => {
                if let Some(writer) = writer.take() {
                    let mut counted = writer.finish()?;
                    counted.flush()?;
                    *bytes = counted.bytes;
                }
            }
        }
        self.flush()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.way {
            Way::Plain(counted) => counted.write(bytes),
            Way::Gzip(encoder) => encoder.write(bytes),
            Way::Xz(Some(writer), _) => writer.write(bytes),
            Way::Xz(None, _) => Err(io::Error::other("it has been ended")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.way {
            Way::Plain(counted) => counted.flush(),
            Way::Gzip(encoder) => encoder.get_mut().flush(),
            Way::Xz(..) => Ok(()),
        }
    }
}
