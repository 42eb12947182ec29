//! `litefoot collect`: rows of many devices, into one database of PostgreSQL.

use litefoot_ship::collect::{self, Plan};
use litefoot_terminal::Failure;
use litefoot_terminal::interrupt::{self, Idle};
use litefoot_terminal::output::Output;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use super::ship::explain;

/// How soon a request to end is heard.
const HEARING: Duration = Duration::from_millis(100);

/// Take the rows of many devices into one PostgreSQL database.
///
/// Devices send with `litefoot ship`. What arrives at the same time is one transaction, and a device hears of it once it is durable. SIGTERM and Ctrl-C
/// end it in good order; a kill at any point loses nothing and doubles nothing.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  export LITEFOOT_COLLECT_TOKEN=$(openssl rand -hex 32)          the devices have the same
  litefoot collect --to postgres://fleet@localhost/fleet         devices of this machine, for a try
  litefoot collect --listen 0.0.0.0:8443 --certificate cert.pem --key key.pem --to postgres://fleet@db/fleet
  litefoot collect --listen 0.0.0.0:8443 --certificate cert.pem --key key.pem --client-ca devices.pem --to postgres://fleet@db/fleet
  litefoot collect --to postgres://fleet@db/fleet --credentials /etc/litefoot/collect.env

On a device:
  litefoot ship add app.db collect://centre:8443                 encrypted
  litefoot ship add app.db collect+tcp://127.0.0.1:8443          not encrypted, on one machine
  litefoot ship run

LITEFOOT_COLLECT_TOKEN and PGPASSWORD are in the environment, or are lines of the file of --credentials.
On a device LITEFOOT_COLLECT_CERTIFICATE and LITEFOOT_COLLECT_KEY name the files for a collector with --client-ca.

Exit codes: 0 it was asked to end; 1 it cannot begin, and said why.")]
pub struct Args {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8443")]
    listen: SocketAddr,

    /// The database: postgres://user@host/database
    #[arg(long, value_name = "URL")]
    to: String,

    /// The certificate of this collector, and those of its authorities, in PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,

    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,

    /// The authorities of devices, in PEM: each device has to show a certificate of one, and a token only where one is set
    #[arg(long, value_name = "FILE", requires = "certificate")]
    client_ca: Option<PathBuf>,

    /// Take devices of other machines over lines that are not encrypted
    #[arg(long)]
    insecure: bool,

    /// A file with the token and the password, a KEY=value a line, which nobody else can read
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,

    /// Most devices that are connected at one time; others wait
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    interrupt::listen(Idle::Ask);
    let plan = Plan {
        listen: args.listen,
        to: args.to,
        credentials: args.credentials,
        certificate: args.certificate.zip(args.key),
        client_authorities: args.client_ca,
        is_insecure: args.insecure,
        connections: args.connections.into(),
    };
    let say = |line: &str| Failure::new(format!("collect: {line}")).print();
    let server = collect::start(plan, Arc::new(say)).map_err(explain)?;
    let mut output = Output::lock();
    output.line(format!("listening on {}", server.address()))?;
    output.flush()?;
    drop(output);
    while interrupt::check().is_ok() {
        if server.has_ended() {
            return Err(Failure::new("collect: the collector has ended by itself; please report this"));
        }
        std::thread::sleep(HEARING);
    }
    server.stop();
    Ok(ExitCode::SUCCESS)
}
