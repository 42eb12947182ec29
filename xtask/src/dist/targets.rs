//! The kinds of machines that packages are made for.

use crate::emulator::Emulator;
use std::process::Command;

/// A kind of machine, with one C library.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name in the names of packages.
    pub name: &'static str,
    /// Rust's name of it.
    pub rust: &'static str,
    /// The prefix of its C tools' names, which only glibc's targets have on Debian.
    pub tools: &'static str,
    /// Debian's name of the architecture.
    pub debian: &'static str,
    /// The tag of Python's wheels, without the version of glibc.
    pub wheel: &'static str,
    /// Node's names of processor and C library.
    pub node: (&'static str, &'static str),
    /// Go's name of the processor.
    pub go: &'static str,
    /// The emulator, where this machine is another one.
    pub emulator: Option<Emulator>,
    /// The C library is musl.
    pub is_musl: bool,
}

impl Target {
    /// The processor, as the target's name begins.
    pub fn processor(&self) -> &'static str {
        self.name.split('-').next().unwrap_or(self.name)
    }

    /// A C compiler: gcc, for musl that of `cargo zigbuild`.
    pub fn compiler(&self) -> Command {
        if !self.is_musl {
            return Command::new(format!("{}gcc", self.tools));
        }
        let mut zig = Command::new("cargo-zigbuild");
        let name = self.name.replace("armv7", "arm");
        zig.args(["zig", "cc", "--", "-target", &name, "-fno-sanitize=undefined"]);
        zig
    }

    /// True where this machine's own programs can load its library.
    pub fn is_of_this_machine(&self) -> bool {
        self.emulator.is_none() && self.is_musl == cfg!(target_env = "musl")
    }

    /// What is missing to run a program of it here, and what to install.
    pub fn cannot_run(&self) -> Option<String> {
        if self.emulator.is_some_and(|emulator| emulator.program().is_none()) {
            return Some("there is no emulator (apt install qemu-user-static)".to_owned());
        }
        // Debian's name of the 32-bit processor is musl's as well.
        let processor = if self.debian == "armhf" { self.debian } else { self.processor() };
        let loader = format!("/lib/ld-musl-{processor}.so.1");
        let lacks_musl = self.is_musl && !std::path::Path::new(&loader).exists();
        lacks_musl.then(|| format!("there is no {loader} (apt install musl:{})", self.debian))
    }
}

/// The oldest glibc that packages are linked for, where `cargo zigbuild` is there to do it.
pub const GLIBC: &str = "2.28";

const X86_64: Target = Target {
    name: "x86_64-linux-gnu",
    rust: "x86_64-unknown-linux-gnu",
    tools: "",
    debian: "amd64",
    wheel: "x86_64",
    node: ("x64", "glibc"),
    go: "amd64",
    emulator: None,
    is_musl: false,
};

const AARCH64: Target = Target {
    name: "aarch64-linux-gnu",
    rust: "aarch64-unknown-linux-gnu",
    tools: "aarch64-linux-gnu-",
    debian: "arm64",
    wheel: "aarch64",
    node: ("arm64", "glibc"),
    go: "arm64",
    emulator: Some(Emulator { name: "qemu-aarch64", root: "/usr/aarch64-linux-gnu" }),
    is_musl: false,
};

const ARMV7: Target = Target {
    name: "armv7-linux-gnueabihf",
    rust: "armv7-unknown-linux-gnueabihf",
    tools: "arm-linux-gnueabihf-",
    debian: "armhf",
    wheel: "armv7l",
    node: ("arm", "glibc"),
    go: "arm",
    emulator: Some(Emulator { name: "qemu-arm", root: "/usr/arm-linux-gnueabihf" }),
    is_musl: false,
};

/// Musl's loader of another machine lies where it lies there: Debian's packages of musl do not collide.
const MUSL_AARCH64: Option<Emulator> = Some(Emulator { name: "qemu-aarch64", root: "/" });
const MUSL_ARMV7: Option<Emulator> = Some(Emulator { name: "qemu-arm", root: "/" });

/// All of them. musl's are those of glibc with another C library.
pub const TARGETS: [Target; 6] = [
    X86_64,
    AARCH64,
    ARMV7,
    Target {
        name: "x86_64-linux-musl",
        rust: "x86_64-unknown-linux-musl",
        node: ("x64", "musl"),
        is_musl: true,
        ..X86_64
    },
    Target {
        name: "aarch64-linux-musl",
        rust: "aarch64-unknown-linux-musl",
        node: ("arm64", "musl"),
        emulator: MUSL_AARCH64,
        is_musl: true,
        ..AARCH64
    },
    Target {
        name: "armv7-linux-musleabihf",
        rust: "armv7-unknown-linux-musleabihf",
        node: ("arm", "musl"),
        emulator: MUSL_ARMV7,
        is_musl: true,
        ..ARMV7
    },
];

/// The targets of these names, all where there are none; the first name that is none of a target's, where there is one.
pub fn named<'a>(names: &[&'a str]) -> Result<Vec<&'static Target>, &'a str> {
    static ALL: [Target; 6] = TARGETS;
    if names.is_empty() {
        return Ok(ALL.iter().collect());
    }
    names.iter().map(|name| ALL.iter().find(|target| target.name == *name).ok_or(*name)).collect()
}

#[test]
fn targets_are_found_by_their_names() {
    assert_eq!(named(&[]).unwrap().len(), TARGETS.len());
    assert_eq!(named(&["x86_64-linux-musl"]).unwrap()[0].rust, "x86_64-unknown-linux-musl");
    assert_eq!(named(&["x86_64-linux-gnu", "z80"]), Err("z80"));
    assert_eq!(TARGETS.map(|target| target.processor())[..3], ["x86_64", "aarch64", "armv7"]);
}
