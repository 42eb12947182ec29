//! The report of an adoption: text while it goes on, or one JSON object at the end.

use super::plan::Plan;
use crate::inspect::Files;
use litefoot_terminal::Failure;
use litefoot_terminal::output::Output;
use litefoot_terminal::table::{Columns, left};
use litefoot_terminal::text::printable;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// The report.
pub struct Report {
    output: Output,
    json: bool,
    checked: bool,
    notes: Vec<String>,
}

impl Report {
    /// An empty one.
    pub fn new(json: bool) -> Report {
        Report { output: Output::lock(), json, checked: false, notes: Vec::new() }
    }

    /// Adds a line of text.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        if self.json { Ok(()) } else { self.output.line(text) }
    }

    /// Hands the text so far to the reader.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.output.flush()
    }

    /// Adds the plan.
    pub fn plan(&mut self, plan: &Plan, files: &Files) -> Result<(), Failure> {
        let mut rows = vec![vec![left("database"), left(files.path.display().to_string())]];
        rows.extend(plan.facts.iter().map(|(name, value)| vec![left(*name), left(value)]));
        let mut heading = "will change";
        if plan.changes.is_empty() {
            rows.push(vec![left(heading), left("nothing")]);
        }
        for change in &plan.changes {
            rows.push(vec![left(std::mem::take(&mut heading)), left(change)]);
        }
        if let Some(advice) = plan.advice {
            rows.push(vec![left("advice"), left(advice)]);
        }
        // The checks, which come later, stand in the same columns.
        rows.push(vec![left("rollback journal"), left("")]);
        let columns = Columns::fit(rows.iter().map(Vec::as_slice));
        rows.pop();
        rows.iter().try_for_each(|row| self.line(printable(&columns.row(row))))
    }

    /// Adds that SQLite's check found nothing, and what it noticed beside.
    pub fn in_order(&mut self, notes: Vec<String>) -> Result<(), Failure> {
        self.checked = true;
        self.line("checks            SQLite's integrity check: in order")?;
        for note in &notes {
            self.line(format!("note              {}", printable(note)))?;
        }
        self.notes = notes;
        Ok(())
    }

    /// Ends the report: with the object, or with the lines of text that `text` adds. Findings fail the command.
    pub fn end(
        mut self,
        plan: &Plan,
        files: &Files,
        adopted: bool,
        findings: &[String],
        text: impl FnOnce(&mut Report) -> Result<(), Failure>,
    ) -> Result<ExitCode, Failure> {
        if self.json {
            let in_order = if findings.is_empty() { self.checked.then_some(true) } else { Some(false) };
            let object = json!({
                "database": files.path.to_string_lossy(),
                "bytes": files.bytes,
                "journal_mode": files.header.as_ref().map(|header| header.journal_mode()),
                "changes": plan.changes,
                "advice": plan.advice,
                "in_order": in_order,
                "findings": findings,
                "notes": self.notes,
                "adopted": adopted,
            });
            self.output.line(format!("{object:#}"))?;
            self.output.flush()?;
            return Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        if !findings.is_empty() {
            return self.refuse(findings, &files.path);
        }
        text(&mut self)?;
        self.output.flush()?;
        Ok(ExitCode::SUCCESS)
    }

    fn refuse(mut self, findings: &[String], path: &Path) -> Result<ExitCode, Failure> {
        for finding in findings {
            self.line(format!("{}: {}", path.display(), printable(finding)))?;
        }
        self.output.flush()?;
        Err(Failure::file(path, "cannot be adopted like this").advice(
            "Keep the file, and restore a copy beside it; or export what can be read with sqlite3 .recover.",
        ))
    }
}
