//! The owner's process as the experiment sees it: started, ended, killed, and what it has said.

use super::CHILD;
use super::owner::{Plan, SAID, STOP};
use crate::harness;
use std::fs;
use std::io;
use std::process::Child;
use std::time::{Duration, Instant};

/// After this a process counts as hung: far beyond what any needs.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A process that runs, and is killed should it be dropped before its end.
pub struct Running {
    child: Child,
    plan: Plan,
}

/// What a process has said.
#[derive(Debug, Default, PartialEq)]
pub struct Told {
    pub ready: bool,
    pub done: bool,
    pub errors: Vec<String>,
    pub stale: Vec<String>,
    pub lost: Vec<String>,
    /// How often litefoot has changed the state of the database.
    pub changes: u64,
}

impl Told {
    fn parse(said: &str) -> Told {
        let mut told = Told::default();
        for line in said.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "ready" => told.ready = true,
                "done" => told.done = true,
                "stale" => told.stale.push(line.to_owned()),
                "lost:" => told.lost.push(line.to_owned()),
                "changes" => told.changes += rest.parse::<u64>().unwrap_or_default(),
                _ => told.errors.push(line.to_owned()),
            }
        }
        told
    }
}

impl Running {
    /// Starts a process; what an earlier one has said is forgotten.
    pub fn start(plan: &Plan) -> io::Result<Running> {
        fs::write(plan.directory.join(SAID), "")?;
        let stop = plan.directory.join(STOP);
        if stop.exists() {
            fs::remove_file(stop)?;
        }
        let errors =
            fs::OpenOptions::new().create(true).append(true).open(plan.directory.join("complaints"))?;
        let mut command = harness::child::command(CHILD)?;
        let child = command.args(plan.arguments()).stderr(errors).spawn()?;
        Ok(Running { child, plan: plan.clone() })
    }

    /// What it has said so far.
    pub fn told(&self) -> Told {
        let said = fs::read(self.plan.directory.join(SAID)).unwrap_or_default();
        Told::parse(&String::from_utf8_lossy(&said))
    }

    /// Waits until it works; false if it has ended, or hangs.
    pub fn wait_until_ready(&mut self) -> io::Result<bool> {
        let begun = Instant::now();
        while !self.told().ready {
            if self.child.try_wait()?.is_some() || begun.elapsed() > PATIENCE {
                return Ok(self.told().ready);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(true)
    }

    /// Has it close its connections and end; what it has said, an error where it hangs or fails.
    pub fn stop(mut self) -> io::Result<Told> {
        fs::write(self.plan.directory.join(STOP), "")?;
        let begun = Instant::now();
        let mut status = None;
        while status.is_none() && begun.elapsed() < PATIENCE {
            std::thread::sleep(LOOK_EVERY);
            status = self.child.try_wait()?;
        }
        let mut told = self.told();
        match status {
            None => told.errors.push("error end: the owner hangs".to_owned()),
            Some(status) if !status.success() => {
                let complaints = fs::read(self.plan.directory.join("complaints")).unwrap_or_default();
                let complaints = String::from_utf8_lossy(&complaints);
                told.errors.push(format!("error end: {status}: {}", complaints.trim()));
            }
            Some(_) => {}
        }
        Ok(told)
    }

    /// Kills it; what it had said.
    pub fn kill(mut self) -> io::Result<Told> {
        let ended = self.child.try_wait()?;
        self.child.kill()?;
        self.child.wait()?;
        let mut told = self.told();
        if let Some(status) = ended {
            told.errors.push(format!("error end: the owner has ended by itself: {status}"));
        }
        Ok(told)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_says_is_understood() {
        let told = Told::parse(
            "ready\nstale look: 1 of 2\nerror open: no\nlost: writer 0\nchanges 3\nwhat is this\nchanges 4\ndone\n",
        );
        assert!(told.ready && told.done);
        assert_eq!(told.stale, ["stale look: 1 of 2"]);
        assert_eq!(told.errors, ["error open: no", "what is this"]);
        assert_eq!(told.lost, ["lost: writer 0"]);
        assert_eq!(told.changes, 7);
    }
}
