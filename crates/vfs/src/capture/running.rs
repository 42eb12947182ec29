//! The statements of a connection that have started and not ended, as far as SQLite has told.

/// Statements that run, by their ids.
#[derive(Debug, Default)]
pub(super) struct RunningStatements {
    open: Vec<usize>,
    /// The one query that runs, while nothing else has started: nothing but its end is noted of it.
    lone_query: Option<usize>,
    /// The last statement, if it changed nothing: SQLite may prepare it again, and then it starts again.
    unchanging: Option<usize>,
}

/// How much runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// Nothing.
    Idle,
    /// One query, of which nothing but its end is noted.
    LoneQuery,
    /// One statement.
    One,
    /// Statements inside or beside others.
    Several,
}

/// The part of a statement that ends among those that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was the lone query.
    LoneQuery,
    /// It was the last; `alone` says that it was tracked alone.
    Last { alone: bool },
    /// Others still run.
    Inner,
    /// Its start is unknown, and nothing runs.
    Unknown,
}

impl RunningStatements {
    /// How much runs.
    pub fn activity(&self) -> Activity {
        match self.open.len() {
            0 => Activity::Idle,
            1 if self.lone_query.is_some() => Activity::LoneQuery,
            1 => Activity::One,
            _ => Activity::Several,
        }
    }

    /// True while nothing runs.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// True if nothing runs, and the last statement cannot start again unseen.
    pub fn is_settled(&self) -> bool {
        self.open.is_empty() && self.unchanging.is_none()
    }

    /// True if a statement is the one that started last.
    pub fn is_latest(&self, id: usize) -> bool {
        self.open.last() == Some(&id)
    }

    /// A query starts while nothing runs.
    pub fn start_lone_query(&mut self, id: usize) {
        self.open.push(id);
        self.lone_query = Some(id);
        self.unchanging = None;
    }

    /// Something else starts, or may: a query that runs is no longer a lone one.
    pub fn end_solitude(&mut self) {
        self.lone_query = None;
    }

    /// A statement starts.
    pub fn start(&mut self, id: usize) {
        if !self.open.contains(&id) {
            self.open.push(id);
        }
    }

    /// True if a statement that starts is the last one again, prepared anew. Asked once after each end.
    pub fn restarts(&mut self, id: usize) -> bool {
        self.unchanging.take() == Some(id)
    }

    /// A statement ends.
    pub fn end(&mut self, id: usize) -> Ended {
        if self.lone_query.take_if(|query| *query == id).is_some() {
            self.open.clear();
            return Ended::LoneQuery;
        }
        let before = self.open.len();
        self.open.retain(|open| *open != id);
        match (before, self.open.len()) {
            (0, _) => Ended::Unknown,
            (_, 0) => Ended::Last { alone: before == 1 },
            _ => Ended::Inner,
        }
    }

    /// The statement that ended last changed nothing, or something.
    pub fn note_unchanging(&mut self, id: Option<usize>) {
        self.unchanging = id;
    }

    /// Nothing is known any more.
    pub fn forget(&mut self) {
        self.open.clear();
        (self.lone_query, self.unchanging) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(open: &[usize], lone_query: Option<usize>) -> RunningStatements {
        RunningStatements { open: open.to_vec(), lone_query, unchanging: None }
    }

    #[test]
    fn an_end_is_placed_among_the_statements_that_run() {
        for (open, lone_query, id, ended, activity) in [
            (&[][..], None, 1, Ended::Unknown, Activity::Idle),
            (&[1], None, 1, Ended::Last { alone: true }, Activity::Idle),
            (&[1], None, 2, Ended::Inner, Activity::One),
            (&[1], Some(1), 1, Ended::LoneQuery, Activity::Idle),
            (&[1], Some(1), 2, Ended::Inner, Activity::LoneQuery),
            (&[1, 2], None, 2, Ended::Inner, Activity::One),
            (&[1, 2], None, 1, Ended::Inner, Activity::One),
            (&[1, 2, 3], None, 3, Ended::Inner, Activity::Several),
        ] {
            let mut running = running(open, lone_query);
            assert_eq!(running.end(id), ended, "{open:?} {id}");
            assert_eq!(running.activity(), activity, "{open:?} {id}");
            assert_eq!(running.is_idle(), activity == Activity::Idle);
        }
    }

    #[test]
    fn starts_make_one_or_several_and_triggers_belong_to_the_latest() {
        let mut running = RunningStatements::default();
        running.start_lone_query(1);
        assert_eq!(running.activity(), Activity::LoneQuery);
        running.end_solitude();
        assert_eq!(running.activity(), Activity::One);
        running.start(1);
        assert_eq!(running.activity(), Activity::One, "a statement runs once");
        running.start(2);
        assert_eq!(
            (running.activity(), running.is_latest(2), running.is_latest(1)),
            (Activity::Several, true, false)
        );
        running.forget();
        assert_eq!(running.activity(), Activity::Idle);
    }

    #[test]
    fn a_statement_that_changed_nothing_may_restart_once() {
        let mut running = RunningStatements::default();
        assert!(running.is_settled() && !running.restarts(1));
        running.note_unchanging(Some(1));
        assert!(!running.is_settled() && !running.restarts(2));
        assert!(!running.restarts(1), "asked once");
        running.note_unchanging(Some(1));
        assert!(running.restarts(1));
        running.note_unchanging(Some(1));
        running.start_lone_query(2);
        assert!(!running.restarts(1), "another has started since");
    }
}
