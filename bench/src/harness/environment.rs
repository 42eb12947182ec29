//! Where an experiment ran: what must be known to read its figures.

use crate::options::Options;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Where an experiment ran. Unknown values are `unknown`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Environment {
    /// The processor, or the board where the processor has no name.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// The file system of the directory that was worked in.
    pub file_system: String,
    /// The version of SQLite that all sides ran on.
    pub sqlite: String,
    /// Compile options of that SQLite beyond its crate's defaults.
    pub sqlite_flags: String,
    /// Litefoot's version.
    pub litefoot: String,
    /// `release`, or `debug`: figures of a debug build mean nothing.
    pub build: String,
    /// True if it was the short form of the experiment.
    pub quick: bool,
    /// The seed of everything random.
    pub seed: u64,
}

impl Environment {
    /// This machine, for an experiment in `directory`.
    pub fn of(directory: &Path, options: &Options) -> Environment {
        Environment {
            cpu: cpu(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: file("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            file_system: file_system(directory).unwrap_or_else(unknown),
            sqlite: rusqlite::version().to_owned(),
            sqlite_flags: option_env!("LIBSQLITE3_FLAGS").unwrap_or_default().to_owned(),
            litefoot: env!("CARGO_PKG_VERSION").to_owned(),
            build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
            quick: options.quick,
            seed: options.seed,
        }
    }

    /// One line for people.
    pub fn summary(&self) -> String {
        format!(
            "{} ({} cores), kernel {}, {}, SQLite {}, litefoot {} ({})",
            self.cpu, self.cores, self.kernel, self.file_system, self.sqlite, self.litefoot, self.build
        )
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// The content of a file of the system, without the ends that boards put there.
fn file(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim_matches(['\0', '\n', ' ']).to_owned()).filter(|text| !text.is_empty())
}

fn cpu() -> String {
    file("/proc/cpuinfo")
        .and_then(|text| cpu_model(&text))
        .or_else(|| file("/proc/device-tree/model"))
        .unwrap_or_else(unknown)
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim().to_owned()).filter(|model| !model.is_empty())
}

fn file_system(directory: &Path) -> Option<String> {
    let directory = fs::canonicalize(directory).ok()?;
    mount_of(&fs::read_to_string("/proc/self/mountinfo").ok()?, &directory)
}

/// The type of the file system mounted nearest above a path. In mountinfo (`man 5 proc`) field 5 is the mount point,
/// and the type follows the separator ` - `. Of two mounts on one point the later hides the earlier.
fn mount_of(mountinfo: &str, directory: &Path) -> Option<String> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (mount, kind) = line.split_once(" - ")?;
            let point = PathBuf::from(mount.split(' ').nth(4)?.replace("\\040", " "));
            directory.starts_with(&point).then(|| (point.components().count(), kind.split(' ').next()))
        })
        .max_by_key(|(depth, _)| *depth)
        .and_then(|(_, kind)| kind.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_and_latest_mount_counts() {
        let mounts = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
             30 22 0:25 / /media/sd\\040card rw - vfat /dev/mmcblk0 rw\n\
             31 22 0:26 / /tmp rw - ext4 /dev/vda rw\n\
             32 22 0:27 / /tmp rw shared:9 master:2 - tmpfs tmpfs rw\n";
        for (directory, kind) in
            [("/home/a", "ext4"), ("/media/sd card/db", "vfat"), ("/tmp/x", "tmpfs"), ("/tmpx", "ext4")]
        {
            assert_eq!(mount_of(mounts, Path::new(directory)).as_deref(), Some(kind), "{directory}");
        }
        assert_eq!(mount_of("", Path::new("/")), None);
    }

    #[test]
    fn processors_with_and_without_a_name() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: ARMv7 rev 4\n").as_deref(), Some("ARMv7 rev 4"));
        assert_eq!(cpu_model("processor\t: 0\nFeatures\t: fp asimd\n"), None);
    }
}
