//! How the line to a server is protected, by the URL's `sslmode` and `sslrootcert`.
//!
//! | `sslmode` | |
//! |---|---|
//! | none, `disable`, `prefer` | not encrypted |
//! | `require`, `verify-full` | encrypted, and the server's certificate is of a trusted authority and for its name |
//!
//! `require` is stricter than libpq's, which takes any certificate. `sslrootcert` names a file with the trusted authorities; without one, they are the
//! system's.

use crate::Result;
use crate::line::Line;
use std::path::PathBuf;

/// Takes both parameters out of a URL.
///
/// # Errors
/// A mode that is not known, or one that is half of an encrypted line.
pub(super) fn of_url(url: &str) -> std::result::Result<(String, Line), &'static str> {
    let Some((before, query)) = url.split_once('?') else { return Ok((url.to_owned(), Line::Plain)) };
    let (mut mode, mut authorities, mut others) = ("", None, Vec::new());
    for parameter in query.split('&') {
        match parameter.split_once('=') {
            Some(("sslmode", value)) => mode = value,
            Some(("sslrootcert", value)) => authorities = Some(PathBuf::from(value)),
            _ => others.push(parameter),
        }
    }
    let line = match mode {
        "" | "disable" | "prefer" | "allow" if authorities.is_some() => {
            return Err("sslrootcert is for sslmode=verify-full");
        }
        "" | "disable" | "prefer" | "allow" => Line::Plain,
        "require" | "verify-full" => Line::Tls { authorities, certificate: None },
        _ => return Err("write sslmode=verify-full, or sslmode=disable"),
    };
    let url = if others.is_empty() { before.to_owned() } else { format!("{before}?{}", others.join("&")) };
    Ok((url, line))
}

/// A line as it is opened.
#[derive(Clone)]
pub(super) enum Opener {
    Plain,
    #[cfg(feature = "tls")]
    Tls(tokio_postgres_rustls::MakeRustlsConnect),
}

impl Opener {
    #[cfg(feature = "tls")]
    pub(super) fn new(line: &Line, _: &str) -> Result<Opener> {
        let Line::Tls { authorities, certificate } = line else { return Ok(Opener::Plain) };
        let config = crate::tls::client(authorities.as_deref(), certificate.as_ref())?;
        Ok(Opener::Tls(tokio_postgres_rustls::MakeRustlsConnect::new(config)))
    }

    #[cfg(not(feature = "tls"))]
    pub(super) fn new(line: &Line, place: &str) -> Result<Opener> {
        match line {
            Line::Plain => Ok(Opener::Plain),
            Line::Tls { .. } => Err(crate::line::without_tls(place)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_how_a_line_is_protected() {
        let tls = |file: Option<&str>| Line::Tls { authorities: file.map(PathBuf::from), certificate: None };
        for (url, rest, line) in [
            ("postgres://h/d", "postgres://h/d", Line::Plain),
            ("postgres://h/d?sslmode=disable", "postgres://h/d", Line::Plain),
            ("postgres://h/d?sslmode=require", "postgres://h/d", tls(None)),
            ("postgres://h/d?a=b&sslmode=verify-full&c=d", "postgres://h/d?a=b&c=d", tls(None)),
            ("postgres://h/d?sslrootcert=/x&sslmode=verify-full", "postgres://h/d", tls(Some("/x"))),
        ] {
            assert_eq!(of_url(url), Ok((rest.to_owned(), line)), "{url}");
        }
        for url in ["postgres://h/d?sslmode=verify-ca", "postgres://h/d?sslrootcert=/x"] {
            assert!(of_url(url).is_err(), "{url}");
        }
    }
}
