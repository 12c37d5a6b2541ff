//! A file that grows while a run goes on, up to a bound, and may be compressed as it does.
//!
//! Always true here: it has its name when its end is written; without it, it leaves nothing.

use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzWriter};

use crate::replaced::Replaced;

/// So much is written at once: compressors and files take long for each piece.
const PIECE_BYTES: usize = 1 << 15;
/// A level at which 64-byte records shrink to a fraction, and which keeps up with the simulation.
const XZ_PRESET: u32 = 1;
const GZIP_LEVEL: u32 = 3;

/// A file that counts its bytes.
struct Counted {
    file: Replaced,
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
    Xz(Box<XzWriter<Counted>>),
    /// Its end is written.
    Ended(Counted),
}

/// The file.
pub struct Output {
    way: Option<Way>,
    piece: Vec<u8>,
    most_bytes: u64,
}

impl Output {
    /// A new file, of about so many bytes at most; compressed if its name ends in `.gz` or `.xz`.
    pub fn create(path: &Path, most_bytes: u64) -> io::Result<Self> {
        let file = Replaced::create(path)?;
        let counted = Counted { file, bytes: 0 };
        let way = match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => Way::Gzip(GzEncoder::new(counted, Compression::new(GZIP_LEVEL))),
            Some("xz") => {
                let options = XzOptions::with_preset(XZ_PRESET);
                Way::Xz(Box::new(XzWriter::new(counted, options)?))
            }
            _ => Way::Plain(counted),
        };
        Ok(Self {
            way: Some(way),
            piece: Vec::with_capacity(PIECE_BYTES),
            most_bytes,
        })
    }

    /// How many bytes the file has, or will have of what it was given, but for what a compression still
    /// holds back.
    pub fn bytes(&self) -> u64 {
        match &self.way {
            Some(Way::Plain(counted)) => counted.bytes + self.piece.len() as u64,
            Some(Way::Gzip(encoder)) => encoder.get_ref().bytes,
            Some(Way::Xz(writer)) => writer.inner().bytes,
            Some(Way::Ended(counted)) => counted.bytes,
            None => 0,
        }
    }

    /// True if nothing more should be written than what ends it.
    pub fn is_full(&self) -> bool {
        self.bytes() >= self.most_bytes
    }

    fn hand_on(&mut self) -> io::Result<()> {
        match &mut self.way {
            Some(Way::Plain(counted)) => counted.write_all(&self.piece)?,
            Some(Way::Gzip(encoder)) => encoder.write_all(&self.piece)?,
            Some(Way::Xz(writer)) => writer.write_all(&self.piece)?,
            Some(Way::Ended(_)) | None => return Err(io::Error::other("it has been ended")),
        }
        self.piece.clear();
        Ok(())
    }

    /// Writes what is held back, and the file's end, and gives it its name.
    pub fn finish(&mut self) -> io::Result<()> {
        self.hand_on()?;
        let mut ended = match self.way.take() {
            Some(Way::Plain(counted) | Way::Ended(counted)) => counted,
            Some(Way::Gzip(encoder)) => encoder.finish()?,
            Some(Way::Xz(writer)) => writer.finish()?,
            None => return Err(io::Error::other("it has been ended")),
        };
        ended.file.keep()?;
        self.way = Some(Way::Ended(ended));
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.hand_on()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_on()
    }
}
