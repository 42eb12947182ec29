//! What `litefoot doctor` says, in lines.

use super::{Reached, Report, Subject};
use crate::inspect;
use crate::reach::carriers::{Carrier, Kind};
use crate::reach::process::{OpenDatabase, Running, State};
use crate::reach::program::Program;
use crate::reach::ways;

/// Names before the values, in one column.
const NAME_WIDTH: usize = 10;

/// All lines.
pub fn lines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    match &report.subject {
        Subject::Program(program) => lines.extend(of_program(program)),
        Subject::Process(running) => lines.extend(of_process(running)),
    }
    for carrier in &report.carriers {
        lines.push(line("SQLite", &describe(carrier)));
        if !(carrier.kind == Kind::Open
            && matches!(report.subject, Subject::Process(Running { library: Some(_), .. })))
        {
            lines
                .push(line("  way in", &ways::way(carrier, report.python_loads_extensions, &report.library)));
        }
    }
    lines.push(line("reached", reached(report)));
    if let Some(obstacle) = report.obstacle {
        lines.push(line("why not", &format!("it {}", obstacle.says())));
        lines.push(line("  way in", obstacle.way()));
    }
    if let Subject::Process(running) = &report.subject {
        let is_loaded = running.library.is_some();
        lines.extend(running.databases.iter().flat_map(|database| of_database(database, is_loaded)));
    }
    lines.extend(report.notes.iter().map(|note| line("note", note)));
    lines
}

fn line(name: &str, value: &str) -> String {
    format!("{name:<NAME_WIDTH$} {value}")
}

fn of_program(program: &Program) -> Vec<String> {
    let mut lines = vec![line("program", &program.file.display().to_string())];
    if program.is_script() {
        lines.push(line("runs", &program.image.display().to_string()));
    }
    lines
}

fn of_process(running: &Running) -> Vec<String> {
    let library = match &running.library {
        Some(path) => format!("loaded, {}", path.display()),
        None => "not loaded".to_owned(),
    };
    vec![
        line("process", &format!("{} ({})", running.process, running.name)),
        line("program", &running.program.display().to_string()),
        line("litefoot", &library),
    ]
}

fn describe(carrier: &Carrier) -> String {
    let version = match (&carrier.version, &carrier.source_day) {
        (Some(version), _) => version.clone(),
        (None, Some(day)) => format!("of {day}"),
        (None, None) => "of a version that does not show".to_owned(),
    };
    let how = match carrier.kind {
        Kind::Open => "its functions can be replaced",
        Kind::TooOld => "it is too old",
        Kind::Fixed => "its functions can be seen, and not be replaced",
        Kind::Hidden => "hidden inside",
        Kind::Go(module) => return format!("{}, {version}, in {}", module.module(), carrier.file.display()),
        Kind::Java => "sqlite-jdbc, which unpacks a library with a hidden SQLite",
    };
    format!("{version}, {how}: {}", carrier.file.display())
}

fn reached(report: &Report) -> &'static str {
    let is_loaded = match &report.subject {
        Subject::Process(running) => running.library.is_some(),
        Subject::Program(_) => true,
    };
    match report.reached {
        Reached::Yes if is_loaded => "yes, by preloading",
        Reached::Yes => "it would be, if it were started by litefoot run",
        Reached::Partly => "in part, by preloading: the others have their own way in",
        Reached::No => "no, not by preloading",
        Reached::Unknown => "not known: no SQLite was found",
    }
}

fn of_database(database: &OpenDatabase, is_loaded: bool) -> Vec<String> {
    let others = match database.others.as_slice() {
        [] => String::new(),
        others => {
            let names: Vec<_> = others.iter().map(|(process, name)| format!("{process} ({name})")).collect();
            format!("; also open in {}", names.join(", "))
        }
    };
    let leads;
    let state = match (database.state, database.others.is_empty()) {
        (State::Owned, _) => "on litefoot, which owns it",
        (State::MultiProcess, _) => "on litefoot, which shares it: commits cost what they cost without",
        (State::Member(leader), _) => {
            leads = format!("on litefoot, as a member of the group of {}", inspect::process(Some(leader)));
            leads.as_str()
        }
        (State::Elsewhere, _) if is_loaded => {
            "a visitor: another process has it on litefoot, and this one has not joined it (docs/several-processes.md)"
        }
        (State::Elsewhere, _) => {
            "a visitor: another process has it on litefoot; on litefoot this one would join it (in WAL mode: where a sync takes a millisecond or more, or with sharing=group)"
        }
        (State::Stock, true) => "on stock SQLite; on litefoot this process would own it",
        (State::Stock, false) => {
            "on stock SQLite; on litefoot it would be shared, and cost what it costs without, while others have it open that do not join it"
        }
    };
    let mut lines = vec![line("database", &format!("{}: {state}{others}", database.path.display()))];
    if let Some(why) = database.no_lease {
        let says = format!(
            "the system grants no lease on it ({why}): on litefoot it is shared from the first lock on, unless sharing=exclusive"
        );
        lines.push(line("  lease", &says));
    }
    lines
}
