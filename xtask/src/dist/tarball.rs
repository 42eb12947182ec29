//! Tarballs and lists of checksums: the same bytes from the same files.

use crate::process::{self, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder that will be packed.
pub struct Stage {
    /// Where it lies.
    pub folder: PathBuf,
}

impl Stage {
    /// An empty folder.
    pub fn new(folder: PathBuf) -> Result<Stage> {
        let _ = std::fs::remove_dir_all(&folder);
        create(&folder)?;
        Ok(Stage { folder })
    }

    /// Copies a file to a place in it.
    pub fn copy(&self, from: &Path, to: &str, mode: u32) -> Result<()> {
        let to = self.folder.join(to);
        to.parent().map_or(Ok(()), create)?;
        std::fs::copy(from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
        set_mode(&to, mode)
    }

    /// Writes a file in it.
    pub fn write(&self, to: &str, text: &str, mode: u32) -> Result<()> {
        let to = self.folder.join(to);
        to.parent().map_or(Ok(()), create)?;
        std::fs::write(&to, text).map_err(|error| format!("{}: {error}", to.display()))?;
        set_mode(&to, mode)
    }

    /// Packs it as `NAME.tar.gz`, with the folder's name as the one at the top.
    pub fn pack(&self, to: &Path) -> Result<()> {
        let parent = self.folder.parent().unwrap_or(&self.folder);
        let name = self.folder.file_name().unwrap_or_default();
        let mut tar = Command::new("tar");
        tar.args(["--create", "--sort=name", "--format=ustar", "--owner=0", "--group=0", "--numeric-owner"]);
        tar.arg(format!("--mtime=@{}", epoch()?)).args(["--use-compress-program", "gzip --no-name --best"]);
        process::succeed(tar.arg("--file").arg(to).arg("--directory").arg(parent).arg(name))
    }
}

/// The time of everything that is packed: that of the commit, or what `SOURCE_DATE_EPOCH` says.
pub fn epoch() -> Result<String> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(given);
    }
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    Ok(process::printed(&mut git)?.trim().to_owned())
}

/// Writes `SHA256SUMS` of all other files of a folder, as `sha256sum --check` reads them.
pub fn sums(folder: &Path) -> Result<()> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    names.retain(|name| name != "SHA256SUMS" && folder.join(name).is_file());
    names.sort();
    let list = process::printed(Command::new("sha256sum").args(&names).current_dir(folder))?;
    std::fs::write(folder.join("SHA256SUMS"), list).map_err(|error| format!("SHA256SUMS: {error}"))
}

/// Copies a file.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", from.display()))
}

/// Creates a folder and those above it.
pub fn create(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .map_err(|error| format!("{}: {error}", path.display()))
}
