//! The setups, and what each needs.

/// A setup.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub name: &'static str,
    pub about: &'static str,
    /// Its file in `bench/apps/setups`.
    pub program: &'static str,
    /// Where its modules are.
    pub modules_in: Modules,
    /// Modules of Python's that it needs.
    pub modules: &'static [&'static str],
    /// Programs that it needs.
    pub programs: &'static [Program],
}

/// A directory of Python's modules that go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modules {
    Common,
    /// It wants another gunicorn, and takes most of the space.
    Mlflow,
    /// It wants an old setuptools.
    Trac,
}

/// A program that a setup runs.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// A command that succeeds where it is there.
    pub probe: &'static [&'static str],
    /// What brings it.
    pub advice: &'static str,
}

const SQLITE3: Program =
    Program { probe: &["sqlite3", "--version"], advice: "sqlite3: apt-get install sqlite3" };
const LITESTREAM: Program = Program {
    probe: &["litestream", "version"],
    advice: "litestream: litefoot bench setups --install, which takes go and a C compiler",
};
const PHP: Program = Program {
    probe: &["php", "-r", "new PDO('sqlite::memory:');"],
    advice: "PHP: apt-get install php-cli php-sqlite3",
};
const PERL: Program = Program {
    probe: &["perl", "-MDBD::SQLite", "-e", "1"],
    advice: "Perl with DBD::SQLite: apt-get install libdbd-sqlite3-perl",
};
const SVN: Program =
    Program { probe: &["svnadmin", "--version", "--quiet"], advice: "svn: apt-get install subversion" };

const WEB: Setup = Setup {
    name: "",
    about: "",
    program: "web.py",
    modules_in: Modules::Common,
    modules: &["flask", "gunicorn"],
    programs: &[],
};
const DJANGO: Setup = Setup { modules: &["django", "gunicorn"], ..WEB };
const JOBS: Setup = Setup { program: "jobs.py", ..WEB };
const SERVICE: Setup = Setup { program: "services.py", programs: &[SQLITE3], ..WEB };
const WORKERS: Setup = Setup { program: "workers.py", modules: &[], ..SERVICE };

/// All setups, in the order of the table.
pub const ALL: &[Setup] = &[
    Setup { name: "django_per_request", about: "Django's defaults, gunicorn with four workers", ..DJANGO },
    Setup { name: "django_persistent", about: "the same with CONN_MAX_AGE = None", ..DJANGO },
    Setup { name: "flask", about: "Flask, WAL, gunicorn with four workers", ..WEB },
    Setup {
        name: "gunicorn_preload",
        about: "the same with --preload, and a connection from before the fork",
        ..WEB
    },
    Setup {
        name: "uwsgi",
        about: "the same under uwsgi, which forks four workers behind the application's start",
        modules: &["flask", "pyuwsgi"],
        ..WEB
    },
    Setup { name: "cron", about: "Flask, and a cron job that inserts", programs: &[SQLITE3], ..WEB },
    Setup { name: "backup", about: "Flask, and sqlite3 .backup every second", programs: &[SQLITE3], ..WEB },
    Setup {
        name: "litestream",
        about: "Flask in one process, and Litestream beside it; its replica must have every row",
        programs: &[LITESTREAM],
        ..WEB
    },
    Setup {
        name: "huey",
        about: "huey with two worker processes, a producer that waits",
        modules: &["huey"],
        ..JOBS
    },
    Setup {
        name: "celery",
        about: "Celery with two worker processes, its broker and its results in SQLite",
        modules: &["celery", "sqlalchemy"],
        ..JOBS
    },
    Setup { name: "optuna", about: "Optuna, four processes on one study", modules: &["optuna"], ..JOBS },
    Setup {
        name: "mlflow",
        about: "mlflow's server with four workers, runs that begin and are listed",
        modules_in: Modules::Mlflow,
        modules: &["mlflow"],
        ..SERVICE
    },
    Setup {
        name: "jupyter",
        about: "four kernels, whose cells insert, and IPython's history of them",
        modules: &["ipykernel", "jupyter_client"],
        ..WORKERS
    },
    Setup {
        name: "trac",
        about: "Trac under gunicorn with four workers, tickets, and trac-admin beside it",
        modules_in: Modules::Trac,
        modules: &["trac", "gunicorn"],
        ..SERVICE
    },
    Setup {
        name: "datasette",
        about: "Datasette reads what a cron job inserts",
        modules: &["datasette"],
        ..SERVICE
    },
    Setup {
        name: "php",
        about: "PHP's server with four workers",
        modules: &[],
        programs: &[SQLITE3, PHP],
        ..SERVICE
    },
    Setup { name: "perl", about: "Perl's DBI, four processes", programs: &[SQLITE3, PERL], ..WORKERS },
    Setup {
        name: "svn",
        about: "commits of Subversion by four processes to one repository",
        programs: &[SVN],
        ..WORKERS
    },
];
