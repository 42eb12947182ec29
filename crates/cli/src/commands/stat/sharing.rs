//! Whether a database has one owner or several processes share it, since when, and because of which process.

use super::Seen;
use super::text::Row;
use crate::inspect;
use litefoot::stats::{DatabaseState, processes_of_group};
use litefoot_storage::file::FileId;
use litefoot_terminal::text::{duration, grouped};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// The figures that this page tells.
const FIGURES: [&str; 8] = [
    "sharing_changes",
    "shared_since_ms",
    "shared_because_pid",
    "lease_refused",
    "shared_ms",
    "members",
    "member_calls",
    "writers_waiting",
];

/// The state of a database between processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    is_shared: bool,
    /// Seconds since 1970 at which it became shared, while it is.
    since: Option<u64>,
    /// Seconds for which it has been shared this time.
    for_seconds: u64,
    visitor: Option<Visitor>,
    /// True if it is shared since the system grants no lease on the file.
    lease_refused: bool,
    changes: u64,
    shared_seconds: u64,
    owned_seconds: u64,
    /// Connections of other processes that it commits for, and their calls so far.
    members: u64,
    member_calls: u64,
    /// The processes that are members, as far as they show themselves.
    processes: Vec<u32>,
    /// Connections that wait for their turn to write, its own included.
    writers_waiting: u64,
}

/// The process because of which a database was shared last.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Visitor {
    process: u32,
    program: Option<String>,
}

impl Sharing {
    /// The state now.
    pub fn of(seen: &Seen) -> Sharing {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
        Sharing::at(seen, now, seen.open_seconds())
    }

    /// The state now, with the processes that are members of that database's group.
    pub fn with_members(seen: &Seen, database: FileId) -> Sharing {
        let mut sharing = Sharing::of(seen);
        if sharing.members > 0 {
            sharing.processes = processes_of_group(database);
            sharing.processes.retain(|process| *process != seen.process);
        }
        sharing
    }

    fn at(seen: &Seen, now_ms: u64, open_seconds: u64) -> Sharing {
        let reading = &seen.reading;
        let is_shared = reading.state == DatabaseState::MultiProcess;
        let since_ms = Some(reading.get("shared_since_ms")).filter(|since| is_shared && *since > 0);
        let present_ms = since_ms.map_or(0, |since| now_ms.saturating_sub(since));
        let shared_seconds = (reading.get("shared_ms") + present_ms) / 1000;
        let process = u32::try_from(reading.get("shared_because_pid")).ok().filter(|process| *process > 0);
        Sharing {
            is_shared,
            since: since_ms.map(|since| since / 1000),
            for_seconds: present_ms / 1000,
            visitor: process.map(|process| Visitor { process, program: reading.visitor.clone() }),
            lease_refused: reading.get("lease_refused") > 0,
            changes: reading.get("sharing_changes"),
            shared_seconds,
            owned_seconds: open_seconds.saturating_sub(shared_seconds),
            members: reading.get("members"),
            member_calls: reading.get("member_calls"),
            processes: Vec::new(),
            writers_waiting: reading.get("writers_waiting"),
        }
    }

    /// True for a figure that is told here.
    pub fn has(figure: &str) -> bool {
        FIGURES.contains(&figure)
    }

    /// The state as a sentence; `None` where it was never shared.
    pub fn line(&self) -> Option<String> {
        let because = self.visitor.as_ref().map(Visitor::name);
        if self.is_shared && self.lease_refused {
            let time = duration(self.for_seconds);
            return Some(format!("multi-process for {time}, since the system grants no lease on the file"));
        }
        if self.is_shared {
            let because = because.map_or(String::new(), |name| format!(", because of {name}"));
            return Some(format!("multi-process for {}{because}", duration(self.for_seconds)));
        }
        (self.changes > 0).then(|| match because {
            Some(name) => format!("owned; it was shared last because of {name}"),
            None => "owned; it was shared before".to_owned(),
        })
    }

    /// The rows of `litefoot stat`.
    pub fn rows(&self) -> Vec<Row> {
        let group = self.group_line().map(|line| ("group".to_owned(), line));
        let Some(line) = self.line() else { return group.into_iter().collect() };
        let [owned, shared] = [self.owned_seconds, self.shared_seconds].map(duration);
        let changes = grouped(self.changes);
        let rows = [
            ("sharing".to_owned(), line),
            ("changes of state".to_owned(), format!("{changes}; {owned} owned, {shared} multi-process")),
        ];
        rows.into_iter().chain(group).collect()
    }

    /// What it does for other processes; `None` where it has done nothing.
    fn group_line(&self) -> Option<String> {
        let connections = if self.members == 1 { "connection" } else { "connections" };
        (self.member_calls > 0).then(|| {
            let (members, calls) = (grouped(self.members), grouped(self.member_calls));
            let waiting = match self.writers_waiting {
                0 => String::new(),
                waiting => format!("; {} waiting for the turn to write", grouped(waiting)),
            };
            let others = match self.processes.as_slice() {
                [] => "other processes".to_owned(),
                [one] => inspect::process(Some(*one)),
                several => format!("processes {}", several.iter().map(named).collect::<Vec<_>>().join(", ")),
            };
            format!("leads; commits for {members} {connections} of {others}, {calls} calls so far{waiting}")
        })
    }

    /// The object of `litefoot stat --json`.
    pub fn as_json(&self) -> Value {
        json!({
            "state": if self.is_shared { "multi_process" } else { "owned" },
            "since": self.since,
            "because": self.visitor.as_ref().map(|visitor| {
                json!({"process": visitor.process, "program": visitor.program})
            }),
            "lease_refused": self.lease_refused,
            "changes": self.changes,
            "owned_seconds": self.owned_seconds,
            "multi_process_seconds": self.shared_seconds,
            "members": self.members,
            "member_calls": self.member_calls,
            "member_processes": self.processes.iter().map(|process| {
                json!({"process": process, "program": inspect::program(*process)})
            }).collect::<Vec<_>>(),
            "writers_waiting": self.writers_waiting,
        })
    }
}

/// A process among others.
fn named(process: &u32) -> String {
    inspect::program(*process).map_or_else(|| process.to_string(), |program| format!("{process} ({program})"))
}

impl Visitor {
    fn name(&self) -> String {
        match &self.program {
            Some(program) => format!("process {} ({program})", self.process),
            None => inspect::process(Some(self.process)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litefoot::stats::FigureKind::{Counter, Gauge};
    use litefoot::stats::Reading;

    fn seen(state: DatabaseState, figures: &[(&str, u64)], visitor: Option<&str>) -> Seen {
        let figures = figures.iter().map(|(name, value)| {
            let kind = if matches!(*name, "sharing_changes" | "shared_ms") { Counter } else { Gauge };
            ((*name).to_owned(), kind, *value)
        });
        let mut reading = Reading::new(state, UNIX_EPOCH, figures.collect());
        reading.visitor = visitor.map(str::to_owned);
        Seen { process: 1, reading }
    }

    #[test]
    fn a_state_reads_as_it_is() {
        let visited = [
            ("sharing_changes", 3),
            ("shared_since_ms", 90_000),
            ("shared_because_pid", 77),
            ("shared_ms", 4500),
        ];
        let left = [("sharing_changes", 1234), ("shared_because_pid", 77), ("shared_ms", 4500)];
        for (state, figures, line, changes) in [
            (DatabaseState::Owned, &[][..], None, None),
            (
                DatabaseState::MultiProcess,
                &visited[..],
                Some("multi-process for 10 s, because of process 77 (sqlite3)"),
                Some("3; 1 min 26 s owned, 14 s multi-process"),
            ),
            (
                DatabaseState::Owned,
                &left[..],
                Some("owned; it was shared last because of process 77 (sqlite3)"),
                Some("1,234; 1 min 36 s owned, 4 s multi-process"),
            ),
            (
                DatabaseState::MultiProcess,
                &visited[..2],
                Some("multi-process for 10 s"),
                Some("3; 1 min 30 s owned, 10 s multi-process"),
            ),
            (
                DatabaseState::MultiProcess,
                &[("sharing_changes", 1), ("shared_since_ms", 90_000), ("lease_refused", 1)],
                Some("multi-process for 10 s, since the system grants no lease on the file"),
                Some("1; 1 min 30 s owned, 10 s multi-process"),
            ),
        ] {
            let sharing = Sharing::at(&seen(state, figures, Some("sqlite3")), 100_000, 100);
            assert_eq!(sharing.line().as_deref(), line);
            assert_eq!(sharing.rows().get(1).map(|row| row.1.as_str()), changes);
        }
    }

    #[test]
    fn a_process_that_commits_for_others_says_so() {
        for (figures, expected) in [
            (&[("members", 1), ("member_calls", 0)][..], None),
            (
                &[("members", 3), ("member_calls", 12345)],
                Some("leads; commits for 3 connections of other processes, 12,345 calls so far"),
            ),
            (
                &[("members", 1), ("member_calls", 2), ("writers_waiting", 1)],
                Some(
                    "leads; commits for 1 connection of other processes, 2 calls so far; 1 waiting for the turn to write",
                ),
            ),
        ] {
            let rows = Sharing::at(&seen(DatabaseState::Owned, figures, None), 100_000, 100).rows();
            assert_eq!(rows.first().map(|row| row.1.as_str()), expected);
        }
    }

    #[test]
    fn programs_read_the_same() {
        let figures = [("sharing_changes", 1), ("shared_since_ms", 90_000), ("shared_because_pid", 77)];
        let sharing = Sharing::at(&seen(DatabaseState::MultiProcess, &figures, Some("vim")), 95_000, 50);
        assert_eq!(
            sharing.as_json(),
            json!({
                "state": "multi_process", "since": 90, "because": {"process": 77, "program": "vim"},
                "lease_refused": false, "changes": 1, "owned_seconds": 45, "multi_process_seconds": 5,
                "members": 0, "member_calls": 0, "member_processes": [], "writers_waiting": 0,
            })
        );
    }
}
