//! What is shipped where: `ship.toml` in one directory, which also has what the service remembers.
//!
//! ```text
//! ship.toml            the jobs; no secret is in it
//! <job>.state          checksums as of some delivery (source/state.rs)
//! ship.lock            held by the one service of this directory
//! ship.sock            where a running service tells its status
//! ```

use crate::service::Window;
use crate::{Error, Result};
use litefoot_rowsink::Origin;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const FILE: &str = "ship.toml";

/// One database, and one destination of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The name: of its state, and in figures.
    pub name: String,
    /// The database.
    pub database: PathBuf,
    /// The destination, without secrets.
    pub url: String,
    /// The time between two looks, in milliseconds; 0 for a look at each change.
    pub interval_ms: u64,
    /// The number of this shipper, in hexadecimal digits. Destinations know it again.
    pub node: String,
    /// A file with credentials, a `KEY=value` a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<PathBuf>,
    /// Of rows: raised where all of them are sent anew. Destinations refuse what comes with an older one.
    #[serde(default = "first_epoch", skip_serializing_if = "is_first_epoch")]
    pub epoch: u64,
    /// Of rows: the tables that are shipped; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<String>,
    /// Of rows: tables whose deleted rows stay at the destination.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep_deleted: Vec<String>,
    /// The time of day in which it sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Outside of it: how old the last look may be, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_lag_ms: Option<u64>,
    /// Of rows: what lines are.
    #[serde(default, skip_serializing_if = "Format::is_json")]
    pub format: Format,
    /// Of rows: each transaction is a batch, as far as they can be told apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub history: bool,
}

/// What lines are, at destinations that take lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A head for each batch, and a line for each change.
    #[default]
    Json,
    /// The same with SQLite's changesets, as far as these tell changes.
    Changeset,
    /// Events of Debezium.
    Debezium,
}

impl Format {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_json(&self) -> bool {
        *self == Format::Json
    }
}

fn first_epoch() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_first_epoch(epoch: &u64) -> bool {
    *epoch == 1
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    #[serde(default)]
    job: Vec<Job>,
}

impl Job {
    /// The number of this shipper.
    pub fn node(&self) -> u64 {
        u64::from_str_radix(&self.node, 16).unwrap_or_default()
    }

    /// Of rows: where they come from, as destinations know it.
    pub fn origin(&self) -> Origin {
        let mut source = [0; 16];
        source[8..].copy_from_slice(&self.node().to_be_bytes());
        Origin { source, epoch: self.epoch }
    }

    /// True if it may send at a minute of the day, so long after the last look.
    pub fn is_due(&self, minute: u16, since_last: Duration) -> bool {
        let is_late = self.max_lag_ms.is_some_and(|most| since_last >= Duration::from_millis(most));
        is_late || self.window.is_none_or(|window| window.has(minute))
    }

    /// The time between two looks.
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }
}

/// The directory of the jobs.
#[derive(Clone, Debug)]
pub struct Jobs {
    directory: PathBuf,
}

impl Jobs {
    /// A directory, which need not be there yet.
    pub fn at(directory: &Path) -> Jobs {
        Jobs { directory: directory.to_owned() }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The state of a job.
    pub fn state(&self, job: &Job) -> PathBuf {
        self.directory.join(format!("{}.state", job.name))
    }

    /// Reads all jobs.
    pub fn load(&self) -> Result<Vec<Job>> {
        let path = self.directory.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::local(&path, error)),
        };
        let content: Content = toml::from_str(&text).map_err(|error| Error::local(&path, error))?;
        for job in &content.job {
            if u64::from_str_radix(&job.node, 16).is_err() || !is_name(&job.name) {
                return Err(Error::local(&path, format!("the job {:?} has no sound name or node", job.name)));
            }
        }
        Ok(content.job)
    }

    /// Adds a job.
    pub fn add(&self, job: Job) -> Result<()> {
        let mut jobs = self.load()?;
        if jobs.iter().any(|other| other.name == job.name) {
            let why = format!(
                "there is a job {:?} already; remove it first, or give this one another --name",
                job.name
            );
            return Err(Error::local(&self.directory.join(FILE), why));
        }
        jobs.push(job);
        self.save(jobs)
    }

    /// The job of a name.
    pub fn of_name(&self, name: &str) -> Result<Job> {
        let jobs = self.load()?;
        let names: Vec<String> = jobs.iter().map(|job| format!("{:?}", job.name)).collect();
        jobs.into_iter().find(|job| job.name == name).ok_or_else(|| {
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Error::local(&self.directory.join(FILE), format!("there is no job {name:?}; there are: {there}"))
        })
    }

    /// Puts a job in the place of the one of its name.
    pub fn replace(&self, job: Job) -> Result<()> {
        let mut jobs = self.load()?;
        jobs.iter_mut().filter(|other| other.name == job.name).for_each(|other| *other = job.clone());
        self.save(jobs)
    }

    /// Removes a job, with what is remembered of it. Its destination stays as it is. `false` where there is none of this name.
    pub fn remove(&self, name: &str) -> Result<bool> {
        let (removed, kept): (Vec<Job>, Vec<Job>) =
            self.load()?.into_iter().partition(|job| job.name == name);
        self.save(kept)?;
        for job in &removed {
            match fs::remove_file(self.state(job)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::local(&self.state(job), error));
                }
                _ => {}
            }
        }
        Ok(!removed.is_empty())
    }

    /// Makes the directory, for nobody else's eyes.
    pub fn make_directory(&self) -> Result<()> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        made.map_err(|error| Error::local(&self.directory, error))
    }

    fn save(&self, job: Vec<Job>) -> Result<()> {
        self.make_directory()?;
        let path = self.directory.join(FILE);
        let fail = |error: io::Error| Error::local(&path, error);
        let text = toml::to_string_pretty(&Content { job }).map_err(|error| Error::local(&path, error))?;
        let mut file = tempfile::NamedTempFile::new_in(&self.directory).map_err(fail)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o600)).map_err(fail)?;
        file.write_all(text.as_bytes()).map_err(fail)?;
        file.as_file().sync_all().map_err(fail)?;
        file.persist(&path).map_err(|error| fail(error.error))?;
        fs::File::open(&self.directory).and_then(|directory| directory.sync_all()).map_err(fail)
    }
}

/// True for what may be a file's name, and a label.
fn is_name(name: &str) -> bool {
    let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty() && !name.starts_with('.') && name.len() <= 100 && name.bytes().all(is_sound)
}

/// A name for a job: that of the database and the scheme of its destination.
pub fn name_for(database: &Path, url: &str) -> String {
    let stem = database.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let scheme = url.split(':').next().unwrap_or_default();
    let name = format!("{stem}-{scheme}");
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' })
        .collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> Job {
        Job {
            name: name.into(),
            database: "/data/app.db".into(),
            url: "s3://bucket/app".into(),
            interval_ms: 10_000,
            node: "00000000000000ff".into(),
            credentials: None,
            epoch: 1,
            tables: Vec::new(),
            keep_deleted: Vec::new(),
            window: None,
            max_lag_ms: None,
            format: Format::Json,
            history: false,
        }
    }

    #[test]
    fn jobs_come_and_go() {
        let directory = tempfile::tempdir().unwrap();
        let jobs = Jobs::at(&directory.path().join("ship"));
        assert_eq!(jobs.load().unwrap(), []);
        jobs.add(job("a")).unwrap();
        jobs.add(Job { credentials: Some("/etc/keys".into()), ..job("b") }).unwrap();
        assert!(jobs.add(job("a")).is_err());
        let loaded = jobs.load().unwrap();
        assert_eq!((loaded.len(), loaded[0].node(), loaded[1].credentials.is_some()), (2, 255, true));
        fs::write(jobs.state(&loaded[0]), "x").unwrap();
        assert!(jobs.remove("a").unwrap() && !jobs.remove("a").unwrap());
        assert!(!jobs.state(&loaded[0]).exists());
        assert_eq!(jobs.load().unwrap(), loaded[1..]);
        let other = Job {
            epoch: 9,
            tables: vec!["t".into()],
            window: Some("02:00-04:00".parse().unwrap()),
            max_lag_ms: Some(5),
            format: Format::Debezium,
            history: true,
            ..job("b")
        };
        jobs.replace(other.clone()).unwrap();
        assert_eq!((jobs.of_name("b").unwrap(), jobs.load().unwrap().len()), (other, 1));
        assert!(jobs.of_name("a").unwrap_err().to_string().contains("there are: \"b\""));
        let mode = fs::metadata(jobs.directory().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_not_understood_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let jobs = Jobs::at(directory.path());
        for text in [
            "[[job]]\nname = 1",
            "password = 'x'",
            "[[job]]\nname='../x'\ndatabase='a'\nurl='b'\ninterval_ms=1\nnode='1'",
        ] {
            fs::write(directory.path().join(FILE), text).unwrap();
            assert!(jobs.load().is_err(), "{text}");
        }
    }

    #[test]
    fn a_job_is_due_in_its_window_or_when_it_has_waited_for_too_long() {
        let hour = Duration::from_secs(3600);
        assert!(job("a").is_due(600, Duration::ZERO));
        let windowed = Job { window: Some("02:00-04:00".parse().unwrap()), ..job("a") };
        assert!(windowed.is_due(120, Duration::ZERO) && !windowed.is_due(600, hour * 99));
        let late = Job { max_lag_ms: Some(3_600_000), ..windowed };
        assert!(!late.is_due(600, hour - Duration::from_millis(1)) && late.is_due(600, hour));
    }

    #[test]
    fn names_are_made_of_what_is_there() {
        assert_eq!(name_for(Path::new("/data/my app.db"), "s3://bucket/x"), "my_app.db-s3");
    }
}
