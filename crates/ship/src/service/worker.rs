//! One job: a source, a sink, and what is remembered of both.

use crate::Result;
use crate::jobs::{Job, Jobs};
use crate::sink::{Delivered, Sink};
use crate::source::{Door, Source, state};
use litefoot_rowsink::Parked;
use std::path::PathBuf;

/// Deliveries between two writes of the state. What came behind it is read from the destination at the next start.
const SAVE_EVERY: u64 = 1000;

/// A job at work.
pub struct Worker {
    database: PathBuf,
    state: PathBuf,
    door: Option<Box<dyn Door>>,
    sink: Box<dyn Sink>,
    source: Option<Source>,
    saved: Option<u64>,
}

impl Worker {
    /// A job that has not begun.
    pub fn new(jobs: &Jobs, job: &Job, door: Box<dyn Door>, sink: Box<dyn Sink>) -> Worker {
        let (database, state) = (job.database.clone(), jobs.state(job));
        Worker { database, state, door: Some(door), sink, source: None, saved: None }
    }

    /// One look: delivers what changed. `None` where nothing did. With `may_wait` a change may be left for the next look.
    pub fn tick(&mut self, may_wait: bool) -> Result<Option<Delivered>> {
        self.begin()?;
        let Some(source) = &mut self.source else { return Ok(None) };
        if !self.sink.is_pending() {
            if !source.may_have_changed()? {
                return Ok(None);
            }
            let sink = &mut self.sink;
            let visited = source.look(may_wait, |changes| sink.gather(changes));
            if !matches!(visited, Ok(true)) {
                sink.discard();
            }
            visited?;
        }
        if !self.sink.is_pending() {
            return Ok(None);
        }
        let delivered = self.sink.deliver()?;
        if self.saved.is_none_or(|saved| delivered.sequence >= saved + SAVE_EVERY) {
            self.save()?;
        }
        Ok(Some(delivered))
    }

    /// Takes the transactions that an owner keeps for a history. Nothing is delivered.
    pub fn listen(&mut self) {
        self.source.iter_mut().for_each(Source::listen);
    }

    /// True if the next look need not wait: transactions of a history are here.
    pub fn has_next(&self) -> bool {
        self.source.as_ref().is_some_and(Source::has_next)
    }

    /// Asks the destination where it stands, once.
    fn begin(&mut self) -> Result<()> {
        if self.source.is_some() {
            return Ok(());
        }
        let known = state::load(&self.state)?;
        self.saved = known.as_ref().map(|known| known.sequence);
        let map = self.sink.resume(known.map(|known| (known.sequence, known.map)))?;
        if let Some(door) = self.door.take() {
            let source = Source::new(&self.database, door, map).with_images(self.sink.images());
            self.source = Some(source.with_history(self.sink.wants_history()));
        }
        Ok(())
    }

    /// Writes the state, where it is that of a delivery, and there is something new.
    pub fn save(&mut self) -> Result<()> {
        let Some(map) = self.source.as_ref().and_then(Source::map) else { return Ok(()) };
        let sequence = self.sink.sequence();
        if self.sink.is_pending() || sequence == 0 || self.saved == Some(sequence) {
            return Ok(());
        }
        state::save(&self.state, &state::Known { sequence, map: map.clone() })?;
        self.saved = Some(sequence);
        Ok(())
    }

    /// The number of the last delivery.
    pub fn sequence(&self) -> u64 {
        self.sink.sequence()
    }

    /// Tables that the destination does not take, and why.
    pub fn parked(&self) -> &[Parked] {
        self.sink.parked()
    }

    /// True while something is read and not delivered.
    pub fn is_pending(&self) -> bool {
        self.sink.is_pending()
    }

    /// Bytes of the database, as of the last look.
    pub fn database_bytes(&self) -> u64 {
        let map = self.source.as_ref().and_then(Source::map);
        map.map_or(0, |map| u64::from(map.len()) * u64::from(map.page_size()))
    }
}
