//! Tables of PostgreSQL.
//!
//! ```sql
//! litefoot.source(source uuid, epoch bigint, seq bigint, token bigint)   -- the batch that each source has brought last
//! litefoot.source_table(source uuid, name text, parked text)             -- its tables, and why one is left out
//! litefoot.history(…)                                                    -- each change, of sources with a history
//! public.reading(_source uuid, _rowid bigint, …, _misfit jsonb, PRIMARY KEY(_source, _rowid))
//! ```
//! Devices share the tables. A table without rowids has `_key bytea` in place of `_rowid`: the primary key as SQLite's changeset writes its values.
//!
//! # Exactly once
//! One transaction moves the row of `litefoot.source` from the batch before to this one, and takes the rows. Where no row moves, nothing is
//! taken, and the caller hears of the position.
//!
//! # Never lost, never a stop
//! A value that its column cannot hold is NULL there, and stands in `_misfit` by the column's name. New columns are added. A table that was renamed, or
//! whose columns were, is parked: its rows wait for `resync`, and those of all others go on.
//!
//! # Secrets
//! The password is in the connection's settings only. [`Destination::place`] and errors have the host, the port and the database.
//!
//! | file | decides |
//! |---|---|
//! | `fit` | which type a column gets, and whether a value fits |
//! | `table` | the statements for a table |
//! | `apply` | the transaction of a batch |
//! | `line` | whether the line is encrypted |
//! | `group` | the transaction of batches of many sources |
//! | `copy` | rows as COPY reads them |
//! | `history` | each change of each transaction |

pub(crate) mod apply;
mod copy;
mod fit;
pub(crate) mod group;
mod history;
mod line;
mod table;

use crate::line::Line;
use crate::{Applied, Batch, Destination, Error, Origin, Position, Result};
use apply::Failed;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls, Socket};

/// The longest that a server may take to answer.
const ANSWER: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(10);

/// A database of PostgreSQL.
pub struct Postgres {
    session: Session,
    schema: String,
    runtime: Runtime,
}

impl Postgres {
    /// A destination by its URL, `postgres://user:password@host/database`; rows go into tables of `schema`. Nothing is connected yet.
    ///
    /// # Errors
    /// The URL is none of PostgreSQL's.
    pub fn new(url: &str, schema: &str) -> Result<Postgres> {
        let session = Session::new(url, "litefoot ship")?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime
            .map_err(|error| Error::Refused { place: session.place.clone(), why: error.to_string() })?;
        Ok(Postgres { session, schema: schema.to_owned(), runtime })
    }

    /// Connects with a password, which is not in the URL.
    #[must_use]
    pub fn with_password(mut self, password: Option<&str>) -> Postgres {
        self.session.set_password(password);
        self
    }

    /// Waits at most so long for an answer.
    #[must_use]
    pub fn with_answer_within(mut self, answer: Duration) -> Postgres {
        self.session.answer = answer;
        self
    }
}

/// The way to a database, and the connection that is open.
pub(crate) struct Session {
    config: Config,
    place: String,
    answer: Duration,
    opener: line::Opener,
    client: Option<Client>,
}

impl Session {
    /// A way by its URL. Nothing is connected yet.
    pub(crate) fn new(url: &str, program: &str) -> Result<Session> {
        // The parser's own error may repeat the URL, and with it the password.
        let refused = |why: &str| Error::Refused { place: "postgres://…".to_owned(), why: why.to_owned() };
        let (url, line) = line::of_url(url).map_err(refused)?;
        let unread = "the URL cannot be read: write postgres://USER@HOST:PORT/DATABASE";
        let mut config: Config = url.parse().map_err(|_| refused(unread))?;
        config.connect_timeout(CONNECT).keepalives_idle(CONNECT).application_name(program);
        let place = place(&config);
        let opener = line::Opener::new(&line, &place)?;
        let is_encrypted = line != Line::Plain;
        config.ssl_mode(if is_encrypted { SslMode::Require } else { SslMode::Disable });
        Ok(Session { place, config, answer: ANSWER, opener, client: None })
    }

    pub(crate) fn set_password(&mut self, password: Option<&str>) {
        if let Some(password) = password {
            self.config.password(password);
        }
    }

    /// Talks with the server. Where that fails, the connection is given up: its state is unknown.
    pub(crate) async fn converse<T>(
        &mut self,
        talk: impl AsyncFnOnce(&mut Client) -> std::result::Result<T, Failed>,
    ) -> Result<T> {
        let answer = self.answer;
        self.converse_within(answer, talk).await
    }

    /// The same, with so much time for the answer.
    pub(crate) async fn converse_within<T>(
        &mut self,
        answer: Duration,
        talk: impl AsyncFnOnce(&mut Client) -> std::result::Result<T, Failed>,
    ) -> Result<T> {
        let (config, opener, known) = (&self.config, &self.opener, self.client.take());
        let outcome = tokio::time::timeout(answer, async {
            let mut client = match known.filter(|client| !client.is_closed()) {
                Some(client) => client,
                None => connect(config, opener).await?,
            };
            let found = talk(&mut client).await?;
            Ok((client, found))
        });
        match outcome.await {
            Ok(Ok((client, found))) => {
                self.client = Some(client);
                Ok(found)
            }
            Ok(Err(Failed::Server(error))) => Err(self.of(&error)),
            Ok(Err(Failed::Batch(why))) => Err(Error::Refused { place: self.place.clone(), why }),
            Err(_) => Err(Error::Unreachable {
                place: self.place.clone(),
                why: format!("no answer for {} seconds", answer.as_secs()),
            }),
        }
    }

    fn of(&self, error: &tokio_postgres::Error) -> Error {
        let (place, why) = (self.place.clone(), explain(error));
        if is_transient(error) { Error::Unreachable { place, why } } else { Error::Refused { place, why } }
    }
}

async fn connect(
    config: &Config,
    opener: &line::Opener,
) -> std::result::Result<Client, tokio_postgres::Error> {
    let client = match opener {
        line::Opener::Plain => open(config, NoTls).await?,
        #[cfg(feature = "tls")]
        line::Opener::Tls(tls) => open(config, tls.clone()).await?,
    };
    client.batch_execute(&[apply::SETUP, history::SETUP].concat()).await?;
    Ok(client)
}

async fn open<T>(config: &Config, tls: T) -> std::result::Result<Client, tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket, Stream: Send + 'static>,
{
    let (client, connection) = config.connect(tls).await?;
    // It ends with its client.
    tokio::spawn(connection);
    Ok(client)
}

/// The destination without secrets.
fn place(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().map_or_else(String::new, |port| format!(":{port}"));
    format!("postgres://{host}{port}/{}", config.get_dbname().unwrap_or_default())
}

/// What the server said, without what was sent to it.
fn explain(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => {
            let cause =
                std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
            format!("{error}{cause}")
        }
    }
}

/// Whether waiting may help: the server was lost, is starting, is full or busy; it has not said no.
fn is_transient(error: &tokio_postgres::Error) -> bool {
    #[cfg(feature = "tls")]
    if crate::tls::wrong_certificate(error).is_some() {
        return false;
    }
    let Some(code) = error.code() else { return true };
    let classes = ["08", "40", "53", "55", "57", "58", "XX"];
    let is_busy = classes.iter().any(|class| code.code().starts_with(class));
    // Two sources that make one table at the same time.
    is_busy
        || [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_SCHEMA].contains(code)
}

impl Destination for Postgres {
    fn place(&self) -> &str {
        &self.session.place
    }

    fn position(&mut self, origin: &Origin) -> Result<Option<Position>> {
        let (session, origin) = (&mut self.session, *origin);
        let talk = async |client: &mut Client| Ok(apply::position(client, &origin).await?);
        self.runtime.block_on(session.converse(talk))
    }

    fn apply(&mut self, batch: &Batch) -> Result<Applied> {
        let (session, schema) = (&mut self.session, self.schema.as_str());
        let talk = async |client: &mut Client| apply::apply(client, schema, batch, &mut || Ok(None)).await;
        self.runtime.block_on(session.converse(talk))
    }
}
