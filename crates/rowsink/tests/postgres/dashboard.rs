//! The dashboard of a fleet asks PostgreSQL for what there is.

use crate::Device;
use crate::server::Server;
use litefoot_rowsink::deliver;
use litefoot_rowsink::postgres::Postgres;
use tokio_postgres::SimpleQueryMessage;

#[test]
fn the_dashboard_of_a_fleet_shows_its_devices() {
    let Some(server) = Server::start() else { return };
    let mut destination = Postgres::new(&server.url(server.port), "public").unwrap();
    for seed in [5, 6] {
        let batch = Device::new(seed).batch();
        deliver(&mut destination, &batch).unwrap();
    }
    let dashboard: serde_json::Value =
        serde_json::from_str(include_str!("../../../../docs/grafana/fleet.json")).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        let (title, query) =
            (panel["title"].as_str().unwrap(), panel["targets"][0]["rawSql"].as_str().unwrap());
        let found = server.ask(async |client| client.simple_query(query).await);
        let rows: Vec<_> = found
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row),
                _ => None,
            })
            .collect();
        let first = |column: usize| rows[0].get(column).unwrap();
        match title {
            "Devices" if panel["type"] == "stat" => assert_eq!(first(0), "2"),
            "Devices" => assert_eq!(rows.len(), 2),
            "Heard within five minutes" => assert_eq!(first(0), "2"),
            "How long ago devices were heard" => {
                assert_eq!((first(0), first(1), rows.len()), ("a minute", "2", 5))
            }
            "Tables that are left out, and why" => assert!(rows.is_empty()),
            _ => assert_eq!(first(0), "0", "{title}"),
        }
    }
}
