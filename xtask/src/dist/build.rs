//! The files that are packed for a target: built with the profile `dist`, and the same from any folder.
//!
//! `cargo zigbuild` (PyPI: `cargo-zigbuild` and `ziglang`) links for [`GLIBC`] and for musl. Without it glibc's targets are
//! linked by their gcc, against the glibc of this machine, and musl's are left out. Where the source of Rust's library is there, cargo
//! builds the library as well.

use super::targets::{GLIBC, Target};
use super::{floor, one_symbol};
use crate::process::{self, Result, cargo_command};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Rust's library, as fast as it comes with Rust, but for two things. Its backtraces read debug information, and a packed file has none: that is 190 KB of
/// each file. And it sorts, and writes numbers, by the shorter of two ways: that is 98 KB.
const LIBRARY_OF_RUST: [&str; 10] = [
    "-Z",
    "build-std=std,panic_unwind",
    "-Z",
    "build-std-features=optimize_for_size",
    "--config",
    "profile.dist.package.core.opt-level=3",
    "--config",
    "profile.dist.package.alloc.opt-level=3",
    "--config",
    "profile.dist.package.std.opt-level=3",
];

/// The files of a target.
pub struct Built {
    /// `litefoot`.
    pub program: PathBuf,
    /// `liblitefoot.so`.
    pub library: PathBuf,
    /// `liblitefoot.a`, with one global symbol.
    pub archive: PathBuf,
    /// The oldest glibc that they run on.
    pub floor: Option<floor::Version>,
}

/// The reason that a target cannot be built here, and what to install.
pub fn missing(target: &Target) -> Option<String> {
    if !process::has_target(target.rust) {
        let library = format!("Rust's library for it is missing (rustup target add {})", target.rust);
        if library_source().is_none() {
            return Some(format!("{library}, and so is its source (rustup component add rust-src)"));
        }
        // A crate's build asks the compiler for registers, by programs that need the library.
        if target.processor() == "armv7" {
            return Some(format!("{library}; its source alone does not do on this processor"));
        }
    }
    if target.is_musl && !has_zig() {
        return Some("there is no cargo zigbuild (pip install cargo-zigbuild ziglang)".to_owned());
    }
    let gcc = format!("{}gcc", target.tools);
    // Its linker and objcopy make the static library, whoever compiles.
    (!process::answers(&gcc))
        .then(|| format!("there is no {gcc} (apt install gcc-{})", target.tools.trim_end_matches('-')))
}

/// True where `cargo zigbuild` is there.
pub fn has_zig() -> bool {
    let mut command = cargo_command(&["zigbuild", "--help"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Builds a target.
pub fn build(target: &Target) -> Result<Built> {
    let zig = has_zig();
    let versioned = format!("{}.{GLIBC}", target.rust);
    let name = if zig && !target.is_musl { &versioned } else { target.rust };
    let directory = process::target_directory().join(target.rust).join("dist");
    let mut cargo = cargo_command(&[if zig { "zigbuild" } else { "build" }]);
    cargo.args(["--locked", "--profile", "dist", "--target", name]);
    cargo.args(super::bom::PACKED.iter().flat_map(|package| ["-p", package]));
    if library_source().is_some() {
        // Cargo of a stable Rust asks for this variable.
        cargo.args(LIBRARY_OF_RUST).env("RUSTC_BOOTSTRAP", "1");
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags(target).join("\u{1f}"));
    if !zig {
        let variable = target.rust.to_uppercase().replace('-', "_");
        cargo.env(format!("CARGO_TARGET_{variable}_LINKER"), format!("{}gcc", target.tools));
    }
    process::succeed(&mut cargo)?;
    let archive = directory.join("one-symbol").join("liblitefoot.a");
    one_symbol::make(target.tools, &directory.join("liblitefoot.a"), &archive)?;
    let built = Built {
        program: directory.join("litefoot"),
        library: directory.join("liblitefoot.so"),
        archive,
        floor: None,
    };
    let floor = floor::of(&built.program)?.max(floor::of(&built.library)?);
    Ok(Built { floor, ..built })
}

/// The source of Rust's library, where it is there.
pub fn library_source() -> Option<PathBuf> {
    let printed = process::printed(Command::new("rustc").args(["--print", "sysroot"])).ok()?;
    let source = Path::new(printed.trim()).join("lib/rustlib/src/rust");
    source.join("library/Cargo.lock").exists().then_some(source)
}

/// Flags of the compiler: no path of this machine gets into a file, and musl's library is one that can be loaded.
fn flags(target: &Target) -> Vec<String> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/"));
    let home = |variable: &str, folder: &str| {
        let own = std::env::var_os(variable).map(PathBuf::from);
        own.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(folder)))
    };
    let library = library_source();
    // Debian has a link there.
    let linked = library.as_ref().and_then(|source| source.canonicalize().ok());
    let places = [
        (Some(repository.to_owned()), "/litefoot"),
        (home("CARGO_HOME", ".cargo"), "/cargo"),
        (library, "/rust"),
        (linked, "/rust"),
    ];
    let remap = |(from, to): (Option<PathBuf>, &str)| {
        from.map(|from| format!("--remap-path-prefix={}={to}", from.display()))
    };
    let mut flags: Vec<String> = places.into_iter().filter_map(remap).collect();
    if target.is_musl {
        flags.extend(["-C".to_owned(), "target-feature=-crt-static".to_owned()]);
    }
    flags
}
