//! Cache of what was found out about texts: each text is examined once for a schema and for settings.

use crate::capture::encoding::{Settings, Text};
use crate::capture::replayable::Program;
use crate::capture::statement_text::StatementKind;
use crate::stats::FallbackCause;
use std::collections::HashMap;
use std::sync::Arc;

/// Texts that are kept.
const MOST_TEXTS: usize = 512;
/// The number of texts that may compile differently on the reference connection before such a verdict is kept. A schema
/// that the reference connection has not loaded yet is a passing cause; any other cause stays.
const MOST_DIFFERENCES: u32 = 8;

/// A text, and its program, or the cause for which it cannot be repeated.
#[derive(Debug)]
pub(super) struct Examined {
    pub text: Arc<Text>,
    pub program: Result<Program, FallbackCause>,
    /// True if the text has a number that is close to the largest of rows.
    pub has_large: bool,
}

/// Examined texts of one connection.
#[derive(Debug, Default)]
pub(super) struct ReplayCache {
    known: HashMap<Box<str>, Arc<Examined>>,
    /// The text found last, mostly asked for again.
    last: Option<(StatementKind, Arc<Examined>)>,
    /// The schema and the settings that all this is for.
    schema: u32,
    settings: Option<Settings>,
    differences: u32,
}

impl ReplayCache {
    fn clear(&mut self) {
        self.known.clear();
        self.last = None;
    }

    /// The schema that the cache is for.
    pub fn schema(&self) -> u32 {
        self.schema
    }

    /// From now on the cache is for this schema.
    pub fn use_schema(&mut self, schema: u32) {
        if self.schema != schema {
            self.schema = schema;
            self.clear();
        }
    }

    /// From now on the cache is for these settings.
    pub fn use_settings(&mut self, settings: Settings) {
        if self.settings != Some(settings) {
            self.settings = Some(settings);
            self.clear();
        }
    }

    /// The kind of a text, if the text is the one found last.
    pub fn last_kind(&self, sql: &str) -> Option<StatementKind> {
        self.last.as_ref().filter(|(_, examined)| examined.text.sql == sql).map(|(kind, _)| *kind)
    }

    /// Finds a text; `kind` is remembered with it.
    pub fn find(&mut self, sql: &str, kind: StatementKind) -> Option<Arc<Examined>> {
        if let Some((_, examined)) = self.last.as_ref().filter(|(_, last)| last.text.sql == sql) {
            return Some(examined.clone());
        }
        let examined = self.known.get(sql)?.clone();
        self.last = Some((kind, examined.clone()));
        Some(examined)
    }

    /// Keeps what was found out about a text.
    pub fn keep(&mut self, examined: Examined) -> Arc<Examined> {
        let examined = Arc::new(examined);
        if matches!(examined.program, Err(FallbackCause::Settings)) {
            self.differences += 1;
            if self.differences < MOST_DIFFERENCES {
                return examined;
            }
        }
        if self.known.len() >= MOST_TEXTS {
            self.clear();
        }
        self.known.insert(examined.text.sql.as_str().into(), examined.clone());
        examined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examined(sql: &str, program: Result<Program, FallbackCause>) -> Examined {
        let text = Arc::new(Text { sql: sql.to_owned(), settings: Settings::default() });
        Examined { text, program, has_large: false }
    }

    #[test]
    fn a_text_is_known_until_the_schema_or_the_settings_change() {
        let other = Settings { foreign_keys: true, recursive_triggers: false };
        type Change = fn(&mut ReplayCache, Settings);
        let changes: [(Change, bool); 4] = [
            (|cache, _| cache.use_schema(1), true),
            (|cache, _| cache.use_settings(Settings::default()), true),
            (|cache, _| cache.use_schema(2), false),
            (|cache, other| cache.use_settings(other), false),
        ];
        for (change, stays) in changes {
            let mut cache = ReplayCache::default();
            cache.use_schema(1);
            cache.use_settings(Settings::default());
            cache.keep(examined("INSERT", Ok(Program::default())));
            assert_eq!(cache.last_kind("INSERT"), None);
            assert!(cache.find("INSERT", StatementKind::Write).is_some());
            change(&mut cache, other);
            assert_eq!(cache.last_kind("INSERT"), stays.then_some(StatementKind::Write));
            assert_eq!(cache.find("INSERT", StatementKind::Write).is_some(), stays);
            assert_eq!(cache.last_kind("UPDATE"), None);
        }
    }

    #[test]
    fn the_first_differences_are_not_kept() {
        let mut cache = ReplayCache::default();
        for time in 1..MOST_DIFFERENCES {
            cache.keep(examined("INSERT", Err(FallbackCause::Settings)));
            assert!(cache.find("INSERT", StatementKind::Write).is_none(), "{time}");
        }
        cache.keep(examined("INSERT", Err(FallbackCause::Settings)));
        assert!(cache.find("INSERT", StatementKind::Write).is_some());
        cache.keep(examined("UPDATE", Err(FallbackCause::Clock)));
        assert!(cache.find("UPDATE", StatementKind::Write).is_some(), "any other cause is kept at once");
    }

    #[test]
    fn the_number_of_texts_is_bounded() {
        let mut cache = ReplayCache::default();
        for number in 0..2 * MOST_TEXTS + 1 {
            cache.keep(examined(&number.to_string(), Ok(Program::default())));
            assert!(cache.known.len() <= MOST_TEXTS);
        }
        assert!(cache.find(&(2 * MOST_TEXTS).to_string(), StatementKind::Write).is_some());
        assert!(cache.find("0", StatementKind::Write).is_none());
    }
}
