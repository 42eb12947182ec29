//! The place of a commit log: its name, which another database can take.
//!
//! # Why
//! A crash finds a log by its name. Where another database has taken the name of this one, the log has one of its own until that
//! name is this database's again, or the log is closed.

use super::CommitLog;
use crate::file::Result;
use crate::log_file::{set_aside, step_back};

impl CommitLog {
    /// True if a crash would find its file by its name, or if there is none yet. One call to the medium.
    pub fn is_at_its_name(&self) -> Result<bool> {
        let Some(file) = &self.file else { return Ok(true) };
        Ok(self.given_up.is_none() && self.medium.glance(&self.path)?.is_some_and(|(id, _)| id == file.id()))
    }

    /// Gives the file a name of its own, because another database has taken that of the database.
    pub fn step_aside(&mut self) -> Result<()> {
        if self.file.is_some() && self.is_at_its_name()? {
            let aside = set_aside(&*self.medium, &self.path, &self.latch)?;
            self.given_up = Some(std::mem::replace(&mut self.path, aside));
        }
        Ok(())
    }

    /// Gives the file its name again, because the database has its own again.
    pub fn step_back(&mut self) -> Result<()> {
        if let (Some(file), Some(name)) = (&self.file, &self.given_up)
            && step_back(&*self.medium, (&self.path, name), file.id(), &self.latch)?
        {
            name.clone_into(&mut self.path);
            self.given_up = None;
        }
        Ok(())
    }
}
