//! Credentials: from a file that nobody else can read, `KEY=value` a line. They never stand in a URL, and no line of the file is ever shown.

use crate::{Error, Result};
use std::path::Path;

/// What the keys of a file may begin with.
const FAMILIES: [&str; 6] = ["AWS_", "GOOGLE_", "AZURE_", "PG", "NATS_", "LITEFOOT_COLLECT_"];

/// The lines of a file, keys in capital letters.
pub fn read(path: &Path) -> Result<Vec<(String, String)>> {
    use std::os::unix::fs::PermissionsExt;
    let fail = |error: std::io::Error| Error::local(path, error);
    let mode = std::fs::metadata(path).map_err(fail)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Error::local(path, "others can read these credentials; chmod 600 it first"));
    }
    let text = std::fs::read_to_string(path).map_err(fail)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let of_line = |line: &str| {
        let (key, value) = line.split_once('=')?;
        let key = key.trim().to_ascii_uppercase();
        let is_known = FAMILIES.iter().any(|family| key.starts_with(family));
        is_known.then(|| (key, value.trim().trim_matches('"').to_owned()))
    };
    let why = "has a line that is not AWS_…=, GOOGLE_…=, AZURE_…=, PG…=, NATS_…= or LITEFOOT_COLLECT_…=";
    lines.map(|line| of_line(line).ok_or_else(|| Error::local(path, why))).collect()
}

/// A secret: of the file, or, without one, of the environment.
pub fn secret(name: &str, path: Option<&Path>) -> Result<Option<String>> {
    let Some(path) = path else { return Ok(std::env::var(name).ok()) };
    Ok(read(path)?.into_iter().find(|(key, _)| key == name).map(|(_, value)| value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_by_nobody_else_and_never_shown() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str, mode| {
            std::fs::write(file.path(), text).unwrap();
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            read(file.path())
        };
        let both = write("# mine\nAWS_ACCESS_KEY_ID = a\n\naws_secret_access_key=\"b=c\"\n", 0o600).unwrap();
        assert_eq!(both[1], ("AWS_SECRET_ACCESS_KEY".to_owned(), "b=c".to_owned()));
        assert!(write("AWS_ACCESS_KEY_ID=a", 0o644).is_err());
        let error = write("password=hush", 0o600).unwrap_err().to_string();
        assert!(!error.contains("hush"));
        write("PGPASSWORD = x=y\n", 0o600).unwrap();
        assert_eq!(secret("PGPASSWORD", Some(file.path())).unwrap().as_deref(), Some("x=y"));
        assert_eq!(secret("NATS_TOKEN", Some(file.path())).unwrap(), None);
    }
}
