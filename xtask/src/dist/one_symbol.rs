//! `liblitefoot.a` as users get it: one object with one global symbol, `litefoot_init`.
//!
//! An archive of Rust's defines the symbols of Rust's standard library. Two such archives in a program collide. So the linker
//! makes one object of what `litefoot_init` reaches, and all other symbols become local to it.

use crate::process::{self, Result};
use std::path::Path;
use std::process::Command;

const SYMBOL: &str = "litefoot_init";

/// Makes `to` out of the archive `from`, with the C tools of a target.
pub fn make(tools: &str, from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().unwrap_or(to);
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (linked, object) = (folder.join("linked.o"), folder.join("litefoot.o"));
    let tool = |name: &str| Command::new(format!("{tools}{name}"));
    let mut ld = tool("ld");
    ld.args(["-r", "--gc-sections", "-u", SYMBOL, "-e", SYMBOL, "-o"]);
    process::succeed(ld.arg(&linked).arg(from))?;
    let mut objcopy = tool("objcopy");
    // Bitcode of the standard library is of no use, and confuses tools that know another version of it.
    objcopy.args([
        "--strip-debug",
        "--remove-section=.llvmbc",
        "--remove-section=.llvmcmd",
        "--remove-section=.comment",
    ]);
    process::succeed(objcopy.arg(format!("--keep-global-symbol={SYMBOL}")).arg(&linked).arg(&object))?;
    process::succeed(tool("ar").args(["rcsD"]).arg(to).arg(&object))?;
    let globals = globals(tools, &object)?;
    if globals != [SYMBOL] {
        return Err(format!("{}: global symbols are {globals:?}", to.display()));
    }
    Ok(())
}

/// The global symbols that an object defines.
fn globals(tools: &str, object: &Path) -> Result<Vec<String>> {
    let mut readelf = Command::new(format!("{tools}readelf"));
    let printed = process::printed(readelf.args(["--symbols", "--wide"]).arg(object))?;
    Ok(printed.lines().filter_map(global).map(str::to_owned).collect())
}

/// The name in a line of readelf's, where it is one of a global symbol that is defined.
fn global(line: &str) -> Option<&str> {
    match line.split_whitespace().collect::<Vec<_>>().as_slice() {
        [_, _, _, _, "GLOBAL" | "WEAK", _, section, name] if *section != "UND" => Some(name),
        _ => None,
    }
}

#[test]
fn global_symbols_are_told_from_others() {
    for (line, name) in [
        ("  9: 0000000000000000    12 FUNC    GLOBAL DEFAULT   26 litefoot_init", Some("litefoot_init")),
        ("  8: 0000000000000000     0 NOTYPE  GLOBAL DEFAULT  UND malloc", None),
        ("  7: 0000000000000000     0 NOTYPE  WEAK   DEFAULT  UND sqlite3_expired", None),
        ("  6: 0000000000000000    12 FUNC    LOCAL  DEFAULT    2 helper", None),
        ("   Num:    Value          Size Type    Bind   Vis      Ndx Name", None),
    ] {
        assert_eq!(global(line), name, "{line}");
    }
}
