//! Recording: one statement's text and values are copied, and its program is examined on the reference connection.

use crate::capture::Capture;
use crate::capture::app_settings::UNSAID;
use crate::capture::encoding::{Settings, Text, put_value};
use crate::capture::host::Host;
use crate::capture::large_numbers::{is_large, mentions_large};
use crate::capture::recorder::Recorder;
use crate::capture::reference::{Surroundings, has_foreign_keys};
use crate::capture::replay_cache::Examined;
use crate::capture::replayable::Program;
use crate::capture::statement_text::StatementKind;
use crate::capture::transaction::TransactionRecord;
use crate::capture::transition::Obstacle;
use crate::ffi::statement::{RunningStatement, Statement};
use crate::stats::FallbackCause;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl<H: Host> Capture<H> {
    /// Records a statement, or notes why that cannot be done.
    pub(super) fn record(&self, recorder: &mut Recorder, statement: RunningStatement, sql: &str) {
        let refusal = self.try_record(recorder, statement, sql).err();
        if let Some(cause) = refusal.or_else(|| self.barred.get().copied()) {
            recorder.meet(Obstacle::Unrecordable(cause));
        }
    }

    fn try_record(
        &self,
        recorder: &mut Recorder,
        statement: RunningStatement,
        sql: &str,
    ) -> Result<(), FallbackCause> {
        let parameters = statement.parameters();
        if parameters > 0 && !self.db.can_lend_bindings() {
            return Err(FallbackCause::Bindings);
        }
        // An authorizer of the application is asked for this, once.
        let mut helper =
            (parameters > 0 || self.host.may_read()).then(|| self.prepare_helper(parameters)).transpose()?;
        let examined = self.examine(recorder, sql)?;
        let program = examined.program.as_ref().map_err(|cause| *cause)?;
        recorder.transaction.rows.add(program, examined.has_large);
        recorder.transaction.begin_statement(examined.text.clone(), parameters);
        if let Some(helper) = helper.as_mut().filter(|_| parameters > 0) {
            let TransactionRecord { captured, rows, .. } = &mut recorder.transaction;
            let read = statement.read_bindings(helper, |row| {
                for column in 0..row.columns() {
                    let value = row.value(column);
                    rows.has_large |= is_large(value);
                    put_value(&mut captured.values, value);
                }
            });
            if !read {
                return Err(FallbackCause::Unavailable);
            }
        }
        if recorder.transaction.is_oversized() { Err(FallbackCause::Size) } else { Ok(()) }
    }

    /// A statement on the application's connection that selects so many parameters, if the authorizer is ours. An
    /// authorizer of the application is asked once, and the connection is barred.
    pub(super) fn prepare_helper(&self, parameters: usize) -> Result<Statement, FallbackCause> {
        if let Some(cause) = self.barred.get() {
            return Err(*cause);
        }
        self.authorized.store(false, Ordering::Relaxed);
        let helper = self.db.prepare_parameters(parameters.max(1));
        if !self.authorized.load(Ordering::Relaxed) {
            self.bar(FallbackCause::Settings);
            return Err(FallbackCause::Settings);
        }
        helper.map_err(|_| FallbackCause::Unavailable)
    }

    /// The program of a text, examined unless it is known.
    fn examine(&self, recorder: &mut Recorder, sql: &str) -> Result<Arc<Examined>, FallbackCause> {
        let shared = self.host.shared();
        // Looked at each time: SQLite does not tell of a change.
        let settings = shared.with_reference(&self.host, |reference| {
            let recursive_triggers = match self.recursive_triggers.load(Ordering::Relaxed) {
                UNSAID => reference.recursive_triggers(),
                says => says == 1,
            };
            let settings = Settings { foreign_keys: has_foreign_keys(self.db), recursive_triggers };
            reference.is_like(Surroundings::of(self.db)).then_some(settings)
        });
        let settings = settings.ok_or(FallbackCause::Unavailable)?.ok_or(FallbackCause::Settings)?;
        recorder.cache.use_settings(settings);
        if let Some(examined) = recorder.cache.find(sql, recorder.kind) {
            return Ok(examined);
        }
        let program = if recorder.kind == StatementKind::Savepoint {
            Ok(Program::default())
        } else {
            let examined = shared.with_reference(&self.host, |reference| reference.examine(sql, settings));
            examined.flatten().unwrap_or(Err(FallbackCause::Settings))
        };
        let text = Arc::new(Text { sql: sql.to_owned(), settings });
        let has_large = mentions_large(sql.as_bytes());
        Ok(recorder.cache.keep(Examined { text, program, has_large }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::fake::{Fake, capture, sql, with};
    use std::rc::Rc;

    #[test]
    fn an_authorizer_of_the_application_bars_the_connection_and_is_asked_once() {
        for (is_ours, cause) in [(true, FallbackCause::Unavailable), (false, FallbackCause::Settings)] {
            with(|fake| *fake = Fake { may_read: true, ..Fake::default() });
            let (capture, prepared) = (Rc::new(capture()), Rc::new(std::cell::Cell::new(0)));
            let (weak, count) = (Rc::downgrade(&capture), prepared.clone());
            let on_prepare: Rc<dyn Fn()> = Rc::new(move || {
                count.set(count.get() + 1);
                if let Some(capture) = weak.upgrade().filter(|_| is_ours) {
                    capture.compiles(21, b"", None);
                }
            });
            with(|fake| fake.on_prepare = Some(on_prepare));
            let insert = sql(4, c"INSERT INTO t VALUES(1)");
            for number in 1..4 {
                insert.start(&capture);
                assert_eq!(capture.take(number).err(), Some(cause), "ours: {is_ours}");
                insert.end(&capture);
            }
            assert!(is_ours || prepared.get() == 1, "{} times", prepared.get());
            with(|fake| fake.on_prepare = None);
        }
    }

    #[test]
    fn a_savepoint_needs_the_settings_of_the_reference_connection() {
        with(|fake| *fake = Fake::default());
        let capture = capture();
        let mut recorder = capture.recorder();
        recorder.kind = StatementKind::Savepoint;
        let examined = capture.examine(&mut recorder, "SAVEPOINT a");
        assert_eq!(examined.err(), Some(FallbackCause::Unavailable), "there is none");
    }
}
