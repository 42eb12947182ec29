//! Spill file: the nameless file for bytes that do not fit into memory. It exists from its first use until it is discarded.

use litefoot_storage::file::{File, Result};
use std::sync::Arc;

/// Makes the file.
pub type MakeSpill = Box<dyn Fn() -> Result<Arc<dyn File>> + Send + Sync>;

/// The spill file, as soon as there is something in it.
pub struct Spill {
    make: MakeSpill,
    file: Option<Arc<dyn File>>,
}

impl Spill {
    /// No file yet.
    pub fn new(make: MakeSpill) -> Spill {
        Spill { make, file: None }
    }

    /// The file, made where there is none.
    pub fn file(&mut self) -> Result<&dyn File> {
        match &mut self.file {
            Some(file) => Ok(&**file),
            none => Ok(&**none.insert((self.make)()?)),
        }
    }

    /// The file, where there is one.
    pub fn existing(&self) -> Option<&dyn File> {
        self.file.as_deref()
    }

    /// Discards the file with everything in it.
    pub fn discard(&mut self) {
        self.file = None;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use litefoot_sim::SimMedium;
    use litefoot_storage::file::{FileKind, Medium, OpenMode};
    use std::path::Path;

    /// Files on a simulated medium.
    pub fn make_spill() -> MakeSpill {
        let medium = SimMedium::new();
        Box::new(move || {
            let file = medium.open(Path::new("/spill"), FileKind::Temporary, OpenMode::CreateNew)?;
            medium.delete(Path::new("/spill"))?;
            Ok(file)
        })
    }

    #[test]
    fn the_file_is_there_from_its_first_use_until_it_is_given_up() {
        let mut spill = Spill::new(make_spill());
        assert!(spill.existing().is_none());
        spill.file().unwrap().write_at(&[7; 10], 0).unwrap();
        assert_eq!(spill.file().unwrap().len().unwrap(), 10);
        assert!(spill.existing().is_some());
        spill.discard();
        assert!(spill.existing().is_none());
        assert_eq!(spill.file().unwrap().len().unwrap(), 0);
    }
}
