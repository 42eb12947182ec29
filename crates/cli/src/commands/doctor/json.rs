//! The JSON form of what `litefoot doctor` says.

use super::{Report, Subject};
use crate::reach::carriers::Carrier;
use crate::reach::process::{OpenDatabase, Running, State};
use crate::reach::program::Program;
use crate::reach::ways;
use serde_json::{Value, json};

/// One object. Keys are stable; `program` or `process` is null, whichever was not asked for.
pub fn as_json(report: &Report) -> Value {
    let (program, process) = match &report.subject {
        Subject::Program(program) => (of_program(program), Value::Null),
        Subject::Process(running) => (Value::Null, of_process(running)),
    };
    let sqlite = report.carriers.iter().map(|carrier| of_carrier(carrier, report));
    json!({
        "program": program,
        "process": process,
        "reached": report.reached.name(),
        "obstacle": report.obstacle.map(|obstacle| json!({
            "name": obstacle.name(),
            "says": obstacle.says(),
            "way": obstacle.way(),
        })),
        "sqlite": sqlite.collect::<Vec<_>>(),
        "notes": report.notes,
    })
}

fn of_program(program: &Program) -> Value {
    json!({
        "word": program.name(),
        "file": program.file.to_string_lossy(),
        "runs": program.image.to_string_lossy(),
    })
}

fn of_process(running: &Running) -> Value {
    json!({
        "pid": running.process,
        "name": running.name,
        "file": running.program.to_string_lossy(),
        "library": running.library.as_ref().map(|path| path.to_string_lossy()),
        "databases": running.databases.iter().map(of_database).collect::<Vec<_>>(),
    })
}

fn of_database(database: &OpenDatabase) -> Value {
    let others = database.others.iter().map(|(process, name)| json!({"pid": process, "name": name}));
    json!({
        "path": database.path.to_string_lossy(),
        "state": database.state.name(),
        "leader": match database.state {
            State::Member(leader) => Some(leader),
            _ => None,
        },
        "others": others.collect::<Vec<_>>(),
        "no_lease": database.no_lease,
    })
}

fn of_carrier(carrier: &Carrier, report: &Report) -> Value {
    json!({
        "file": carrier.file.to_string_lossy(),
        "kind": carrier.kind.name(),
        "version": carrier.version,
        "source_day": carrier.source_day,
        "reached": carrier.kind.is_reached() && report.obstacle.is_none(),
        "way": ways::way(carrier, report.python_loads_extensions, &report.library),
    })
}
