//! The content of a file that is about to be written: in memory, or, where it is large, in a file without a name.

use crate::{Error, Result};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes from which on a file takes over.
const MEMORY_MAX: usize = 32 << 20;

/// Content that grows as it is written.
#[derive(Debug)]
pub struct Body {
    memory: Vec<u8>,
    file: Option<File>,
    bytes: u64,
    directory: PathBuf,
}

impl Body {
    /// An empty one. Where it grows large, it is in a directory, without a name.
    pub fn new(directory: &Path) -> Body {
        Body { memory: Vec::new(), file: None, bytes: 0, directory: directory.to_owned() }
    }

    /// The number of bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// True without any.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes, from the first one on.
    pub fn reader(&self) -> Result<Box<dyn Read + '_>> {
        let Some(file) = &self.file else { return Ok(Box::new(self.memory.as_slice())) };
        let mut file = file.try_clone().map_err(|error| Error::local(&self.directory, error))?;
        file.seek(SeekFrom::Start(0)).map_err(|error| Error::local(&self.directory, error))?;
        Ok(Box::new(io::BufReader::with_capacity(1 << 20, file)))
    }

    /// All bytes, in memory.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.bytes as usize);
        self.reader()?.read_to_end(&mut bytes).map_err(|error| Error::local(&self.directory, error))?;
        Ok(bytes)
    }
}

impl Write for Body {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.file.is_none() && self.memory.len() + bytes.len() > MEMORY_MAX {
            let mut file = tempfile::tempfile_in(&self.directory)?;
            file.write_all(&self.memory)?;
            self.memory = Vec::new();
            self.file = Some(file);
        }
        let written = match &mut self.file {
            Some(file) => file.write(bytes)?,
            None => self.memory.write(bytes)?,
        };
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_comes_back_from_memory_and_from_a_file() {
        let directory = tempfile::tempdir().unwrap();
        for bytes in [0, 1000, MEMORY_MAX, MEMORY_MAX + 1, 2 * MEMORY_MAX] {
            let content: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
            let mut body = Body::new(directory.path());
            content.chunks(1 << 16).for_each(|chunk| body.write_all(chunk).unwrap());
            for _ in 0..2 {
                assert!(body.bytes().unwrap() == content, "{bytes}");
            }
            assert_eq!((body.len(), body.file.is_some()), (bytes as u64, bytes > MEMORY_MAX));
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
