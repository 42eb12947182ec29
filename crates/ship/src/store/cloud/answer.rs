//! What a bucket has answered, in a line for people, and what is to be done about it.
//!
//! Servers answer with XML, `<Code>NoSuchBucket</Code><Message>…</Message>`. Only these two elements are told: others repeat what was sent, such as the
//! number of a key.

use crate::Error;
use object_store::Error as Of;

/// The longest part of an answer that is told.
const TOLD_BYTES: usize = 300;

/// The error of this program for one of a bucket.
pub fn error(place: &str, error: &Of, has_key: bool) -> Error {
    let place = place.to_owned();
    let text = innermost(error);
    let said = said(&text);
    let refused = |why: &str| Error::Refused {
        place: place.clone(),
        why: said.as_ref().map_or_else(|| why.to_owned(), |said| format!("{why} ({said})")),
    };
    match error {
        Of::Unauthenticated { .. } | Of::PermissionDenied { .. } if text.contains("RequestTimeTooSkewed") => {
            refused("the clock of this machine is wrong")
        }
        Of::Unauthenticated { .. } | Of::PermissionDenied { .. } => refused(
            "the credentials are missing or refused; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or their like, or pass \
             --credentials FILE",
        ),
        Of::NotFound { .. } => refused("there is no such bucket; make it first"),
        _ if text.contains("<Code>NoSuchBucket</Code>") => refused("there is no such bucket; make it first"),
        Of::NotSupported { .. } | Of::NotImplemented { .. } | Of::UnknownConfigurationKey { .. } => {
            refused(&one_line(&error.to_string()))
        }
        _ if is_of_other_region(&text) => refused("the bucket is in another region; name it: ?region=REGION"),
        _ => {
            let why = said.unwrap_or_else(|| one_line(&text));
            let hint =
                if has_key { "" } else { "; no key was found, so the role of this machine was asked for" };
            Error::Unreachable { place, why: format!("{why}{hint}") }
        }
    }
}

fn is_of_other_region(text: &str) -> bool {
    ["incorrectly configured region", "AuthorizationHeaderMalformed", "PermanentRedirect"]
        .iter()
        .any(|sign| text.contains(sign))
}

/// Code and message of an answer in XML.
fn said(text: &str) -> Option<String> {
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(inner, _)| one_line(inner))
    };
    let code = element("Code")?;
    Some(element("Message").map_or_else(|| code.clone(), |message| format!("{code}: {message}")))
}

/// A text without line breaks and control characters, of a bounded length.
fn one_line(text: &str) -> String {
    let line = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let mut line = line.collect::<Vec<_>>().join(" ");
    if let Some((at, _)) = line.char_indices().find(|(at, _)| *at >= TOLD_BYTES) {
        line.truncate(at);
        line.push('…');
    }
    line
}

/// The first cause of an error: what is around it repeats the URL.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSAL: &str = "Server returned non-2xx status code: 403 Forbidden: <?xml?>\n<Error>\n<Code>SignatureDoesNotMatch</Code>\
        <Message>The request signature\n does not match.</Message><AWSAccessKeyId>hush-key</AWSAccessKeyId></Error>";

    fn told(of: Of, has_key: bool) -> Error {
        error("s3://bucket/x", &of, has_key)
    }

    fn of(text: &str) -> Box<dyn std::error::Error + Send + Sync> {
        text.to_owned().into()
    }

    #[test]
    fn an_answer_is_a_line_without_what_was_sent() {
        let denied = told(Of::PermissionDenied { path: "p".into(), source: of(REFUSAL) }, true).to_string();
        assert!(denied.contains("SignatureDoesNotMatch: The request signature does not match."), "{denied}");
        assert!(
            denied.contains("--credentials") && !denied.contains("hush") && !denied.contains('\n'),
            "{denied}"
        );
        let long = format!("{REFUSAL}{}", "x\u{1b}[2J".repeat(1000)).replace("Code>", "Kode>");
        let away = told(Of::Generic { store: "S3", source: of(&long) }, false);
        assert!(away.is_transient() && away.to_string().contains("role"), "{away}");
        assert!(away.to_string().len() < 500 && !away.to_string().contains('\u{1b}'), "{away}");
    }

    #[test]
    fn each_failure_says_what_is_to_be_done() {
        let generic = |text: &str| told(Of::Generic { store: "S3", source: of(text) }, true);
        for (failure, sign, is_transient) in [
            (told(Of::NotFound { path: "p".into(), source: of("404") }, true), "make it first", false),
            (
                told(
                    Of::PermissionDenied {
                        path: "p".into(),
                        source: of("<Code>RequestTimeTooSkewed</Code>"),
                    },
                    true,
                ),
                "clock",
                false,
            ),
            (generic("404: <Code>NoSuchBucket</Code>"), "make it first", false),
            (generic("301: <Code>PermanentRedirect</Code>"), "region", false),
            (
                generic("503: <Code>SlowDown</Code><Message>Reduce your rate.</Message>"),
                "Reduce your rate",
                true,
            ),
            (generic("Connection refused (os error 111)"), "refused (os error 111)", true),
        ] {
            assert!(failure.to_string().contains(sign), "{failure}");
            assert_eq!(failure.is_transient(), is_transient, "{failure}");
        }
    }
}
