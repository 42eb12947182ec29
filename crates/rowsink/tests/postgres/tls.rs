//! Encrypted lines: to a collector, where a device may show a certificate, and to PostgreSQL.

use super::collect::{READING, Said, TOKEN, count, insert, readings, settings, table};
use super::proxy::Proxy;
use super::server::Server;
use litefoot_rowdiff::Value;
use litefoot_rowsink::collect::{self, Collector, Line, Settings};
use litefoot_rowsink::postgres::Postgres;
use litefoot_rowsink::{Destination, Error, Origin, deliver};
use rustls::HandshakeKind;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const ORIGIN: Origin = Origin { source: [1; 16], epoch: 1 };

fn trusting(authorities: &Path) -> Line {
    Line::Tls { authorities: Some(authorities.to_owned()), certificate: None }
}

/// Makes the authorities and certificates of the script; `None`, with a message, without openssl.
fn certificates(directory: &Path) -> Option<()> {
    let script = include_str!("certificates.sh");
    let made = Command::new("sh").args(["-c", script]).current_dir(directory).output().unwrap();
    if !made.status.success() {
        println!("skipped: openssl: {}", String::from_utf8_lossy(&made.stderr));
        return None;
    }
    Some(())
}

#[test]
fn lines_are_encrypted_and_certificates_are_checked() {
    let Some(server) = Server::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    if certificates(directory.path()).is_none() {
        return;
    }
    let said = Said::default();
    let mut with_certificate = settings(&server, &said);
    with_certificate.certificate = Some((file("cert.pem"), file("key.pem")));
    let collector = collect::Server::start(with_certificate).unwrap();
    let port = collector.address().port();
    let line = trusting(&file("ca.pem"));
    let table = table(READING);
    let proxy = Proxy::start(port, 1);
    let mut device = Collector::new(&format!("localhost:{}", proxy.port), Some(TOKEN), &line).unwrap();
    for sequence in 1..4 {
        deliver(&mut device, &readings(1, sequence, &table, vec![insert(sequence as i64, Value::Real(1.0))]))
            .unwrap();
    }
    assert_eq!(count(&server, "true"), 3);
    let refused = |host: &str, line: &Line| {
        Collector::new(&format!("{host}:{port}"), Some(TOKEN), line).unwrap().position(&ORIGIN).unwrap_err()
    };
    // Another name than the certificate's; an authority that is not trusted; a line that is not encrypted.
    for error in [
        refused("127.0.0.1", &line),
        refused("localhost", &Line::Tls { authorities: None, certificate: None }),
    ] {
        assert!(!error.is_transient() && error.to_string().contains("certificate"), "{error}");
    }
    refused("127.0.0.1", &Line::Plain);
    said.wait("no TLS handshake");
    // The device refuses the collector's certificate, and not the other way round.
    assert!(!said.has("refused"));
    let mut without = settings(&server, &said);
    without.certificate = Some((file("cert.pem"), file("ca.key")));
    assert!(collect::Server::start(without).err().unwrap().to_string().contains("cert.pem"));
}

#[test]
fn the_line_to_the_server_is_encrypted_where_the_url_says_so() {
    let directory = tempfile::tempdir().unwrap();
    if certificates(directory.path()).is_none() {
        return;
    }
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (certificate, key) =
        (format!("ssl_cert_file={}", file("cert.pem")), format!("ssl_key_file={}", file("key.pem")));
    let Some(server) = Server::with(&["fsync=off", "shared_buffers=16MB", "ssl=on", &certificate, &key])
    else {
        return;
    };
    let ask = |host: &str, options: &str| {
        let url = format!("postgres://litefoot:geheim@{host}:{}/postgres?{options}", server.port);
        let mut destination = Postgres::new(&url, "public").unwrap();
        let asked = destination.position(&ORIGIN);
        // The connection is open, and the server says what it is.
        let encrypted: i64 = server.ask(async |client| {
            let select = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND application_name = 'litefoot ship'";
            Ok(client.query_one(select, &[]).await?.get(0))
        });
        asked.map(|_| encrypted)
    };
    let trusted = format!("sslmode=verify-full&sslrootcert={}", file("ca.pem"));
    assert_eq!(ask("localhost", &trusted).unwrap(), 1);
    assert_eq!(ask("localhost", "sslmode=disable").unwrap(), 0);
    assert_eq!(ask("localhost", "connect_timeout=9").unwrap(), 0);
    // An authority that is not trusted, and another name than the certificate's.
    for (host, options) in [("localhost", "sslmode=require"), ("127.0.0.1", trusted.as_str())] {
        let error = ask(host, options).unwrap_err();
        assert!(!error.is_transient() && !error.to_string().contains("geheim"), "{error}");
        assert!(error.to_string().contains("certificate"), "{error}");
    }
}

/// A server, and the files of certificates.
struct Case {
    server: Server,
    said: Said,
    directory: tempfile::TempDir,
}

impl Case {
    /// `None`, with a message, where PostgreSQL or openssl are missing.
    fn new() -> Option<Case> {
        let case =
            Case { server: Server::start()?, said: Said::default(), directory: tempfile::tempdir().unwrap() };
        certificates(case.directory.path())?;
        Some(case)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Settings of a collector that wants certificates of `devices.pem`.
    fn settings(&self, token: Option<&str>) -> Settings {
        Settings {
            token: token.map(str::to_owned),
            certificate: Some((self.file("cert.pem"), self.file("key.pem"))),
            client_authorities: Some(self.file("devices.pem")),
            ..settings(&self.server, &self.said)
        }
    }

    /// A device that shows a certificate and its key.
    fn device(&self, port: u16, token: Option<&str>, own: Option<[&str; 2]>) -> Result<Collector, Error> {
        let certificate = own.map(|[certificate, key]| (self.file(certificate), self.file(key)));
        let line = Line::Tls { authorities: Some(self.file("ca.pem")), certificate };
        Collector::new(&format!("localhost:{port}"), token, &line)
    }

    /// The words of a collector that refuses a device, and goes on.
    fn refusal(&self, port: u16, token: Option<&str>, own: Option<[&str; 2]>) -> String {
        let error = self.device(port, token, own).unwrap().position(&ORIGIN).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        error.to_string()
    }
}

const DEVICE: Option<[&str; 2]> = Some(["device.pem", "device.key"]);
const OTHER: Option<[&str; 2]> = Some(["other.pem", "other.key"]);

#[test]
fn a_device_shows_a_certificate_in_place_of_a_token() {
    let Some(case) = Case::new() else { return };
    let collector = collect::Server::start(case.settings(None)).unwrap();
    let port = collector.address().port();
    // Many times: what a refused device hears does not depend on who is faster.
    for _ in 0..20 {
        let error = case.refusal(port, None, None);
        assert!(error.contains("LITEFOOT_COLLECT_CERTIFICATE"), "{error}");
        let error = case.refusal(port, None, OTHER);
        assert!(error.contains("refuses the certificate of this device"), "{error}");
    }
    // A token makes up for nothing, and the collector's authority is none of devices.
    case.refusal(port, Some(TOKEN), None);
    case.refusal(port, Some(TOKEN), OTHER);
    case.refusal(port, None, Some(["cert.pem", "key.pem"]));
    case.said.wait("refused: TLS: no certificate was shown");
    case.said.wait("refused: TLS: invalid peer certificate: UnknownIssuer");
    assert!(
        Collector::new(&format!("localhost:{port}"), Some(TOKEN), &Line::Plain)
            .unwrap()
            .position(&ORIGIN)
            .is_err()
    );
    let table = table(READING);
    for (sequence, token) in [(1, None), (2, Some(TOKEN))] {
        let mut device = case.device(port, token, DEVICE).unwrap();
        deliver(&mut device, &readings(1, sequence, &table, vec![insert(sequence as i64, Value::Real(1.0))]))
            .unwrap();
    }
    assert_eq!(count(&case.server, "true"), 2);
}

#[test]
fn a_certificate_and_a_token_are_wanted_where_both_are_set() {
    let Some(case) = Case::new() else { return };
    let collector = collect::Server::start(case.settings(Some(TOKEN))).unwrap();
    let port = collector.address().port();
    for (token, own, why) in [
        (None, DEVICE, "wants a token"),
        (Some("another-token-of-the-tests"), DEVICE, "the token is another one"),
        (Some(TOKEN), None, "LITEFOOT_COLLECT_CERTIFICATE"),
        (Some(TOKEN), OTHER, "refuses the certificate of this device"),
    ] {
        let error = case.refusal(port, token, own);
        assert!(error.contains(why) && !error.contains("of-the-tests"), "{error}");
    }
    assert_eq!(case.device(port, Some(TOKEN), DEVICE).unwrap().position(&ORIGIN).unwrap(), None);
    assert!(!case.said.has("of-the-tests"));
}

#[test]
fn a_source_is_that_of_the_certificate_which_delivered_first() {
    let Some(case) = Case::new() else { return };
    let table = table(READING);
    let (renewed, second) = (Some(["renewed.pem", "renewed.key"]), Some(["second.pem", "second.key"]));
    let deliver_as = |source, sequence, own| {
        // A collector of its own each time: what it knows is in the database.
        let collector = collect::Server::start(case.settings(None)).unwrap();
        let mut device = case.device(collector.address().port(), None, own).unwrap();
        let batch = readings(source, sequence, &table, vec![insert(sequence as i64, Value::Real(1.0))]);
        let asked = device.position(&batch.origin);
        asked.and_then(|_| deliver(&mut device, &batch)).map(drop)
    };
    deliver_as(1, 1, DEVICE).unwrap();
    let error = deliver_as(1, 2, second).unwrap_err();
    assert!(
        matches!(error, Error::Refused { .. }) && error.to_string().contains("another certificate"),
        "{error}"
    );
    case.said.wait("refused: source 01010101");
    deliver_as(1, 2, renewed).unwrap();
    deliver_as(2, 1, second).unwrap();
    assert_eq!(count(&case.server, "true"), 3);
}

#[test]
fn another_certificate_does_not_end_the_connection_of_a_source() {
    let Some(case) = Case::new() else { return };
    let collector = collect::Server::start(case.settings(None)).unwrap();
    let port = collector.address().port();
    let table = table(READING);
    let batch = |sequence| readings(1, sequence, &table, vec![insert(sequence as i64, Value::Real(1.0))]);
    let mut device = case.device(port, None, DEVICE).unwrap();
    deliver(&mut device, &batch(1)).unwrap();
    let mut stranger = case.device(port, None, Some(["second.pem", "second.key"])).unwrap();
    for error in [stranger.position(&ORIGIN).map(drop), deliver(&mut stranger, &batch(2)).map(drop)] {
        assert!(error.unwrap_err().to_string().contains("another certificate"));
    }
    device.apply(&batch(2)).unwrap();
    assert!(!case.said.has("another connection"));
}

/// What a device without litefoot would have of rustls.
fn config(case: &Case, [certificate, key]: [&str; 2]) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(case.file("ca.pem")).unwrap()).unwrap();
    let own = vec![CertificateDer::from_pem_file(case.file(certificate)).unwrap()];
    let key = PrivateKeyDer::from_pem_file(case.file(key)).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(own, key);
    Arc::new(config.unwrap())
}

/// Sends bytes, and waits for one of the answer; tells how the handshake went.
fn talk(
    address: SocketAddr,
    config: &Arc<rustls::ClientConfig>,
    bytes: &[u8],
) -> std::io::Result<Option<HandshakeKind>> {
    let mut tls = rustls::ClientConnection::new(config.clone(), "localhost".try_into().unwrap()).unwrap();
    let mut line = TcpStream::connect(address).unwrap();
    let mut stream = rustls::Stream::new(&mut tls, &mut line);
    stream.write_all(bytes)?;
    stream.read_exact(&mut [0])?;
    Ok(tls.handshake_kind())
}

#[test]
fn each_connection_shows_the_certificate_anew() {
    let Some(case) = Case::new() else { return };
    let collector = collect::Server::start(case.settings(None)).unwrap();
    let config = config(&case, DEVICE.unwrap());
    for _ in 0..3 {
        // No greeting: the answer comes behind the tickets, where there are any.
        assert_eq!(talk(collector.address(), &config, &[0; 9]).unwrap(), Some(HandshakeKind::Full));
    }
}

#[test]
fn a_device_that_is_still_sending_hears_that_its_certificate_is_refused() {
    let Some(case) = Case::new() else { return };
    let collector = collect::Server::start(case.settings(None)).unwrap();
    let error = talk(collector.address(), &config(&case, OTHER.unwrap()), &vec![0; 8 << 20]).unwrap_err();
    assert!(error.to_string().contains("UnknownCA"), "{error}");
}

#[test]
fn files_that_cannot_be_used_are_named_and_never_shown() {
    let Some(case) = Case::new() else { return };
    std::fs::write(case.file("text"), "no PEM\n").unwrap();
    // A key whose line breaks were lost.
    let key = std::fs::read_to_string(case.file("device.key")).unwrap();
    std::fs::write(case.file("one-line.key"), key.replace('\n', " ")).unwrap();
    let start = |change: &dyn Fn(&mut Settings)| {
        let mut settings = case.settings(None);
        change(&mut settings);
        collect::Server::start(settings).err().unwrap().to_string()
    };
    for (file, why) in [("none.pem", "No such file"), ("text", "has no certificate in PEM")] {
        let error = start(&|settings| settings.client_authorities = Some(case.file(file)));
        assert!(error.contains(file) && error.contains(why), "{error}");
        let error = case.device(1, None, Some([file, "device.key"])).err().unwrap().to_string();
        assert!(error.contains(file) && error.contains(why), "{error}");
    }
    for (key, why) in [
        ("none.key", "No such file"),
        ("text", "has no private key in PEM"),
        ("one-line.key", "has no private key in PEM"),
        ("other.key", "cannot be used with its key"),
    ] {
        let error = case.device(1, None, Some(["device.pem", key])).err().unwrap().to_string();
        assert!(error.contains(key) && error.contains(why) && !error.contains("45, 45"), "{error}");
    }
    // Without lines of TLS nobody could show a certificate, and without both anybody might come.
    assert!(start(&|settings| settings.certificate = None).contains("devices.pem"));
    assert!(start(&|settings| settings.client_authorities = None).contains("a token or a certificate"));
}
