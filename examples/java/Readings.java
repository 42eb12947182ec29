// Sensor readings with sqlite-jdbc, which carries an SQLite of its own. Java runs the file as it is.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Optional;
import org.sqlite.SQLiteConfig;

public class Readings {
    /** Makes litefoot known, once in a process. */
    static void load(String library) throws SQLException {
        SQLiteConfig config = new SQLiteConfig();
        config.enableLoadExtension(true);
        try (Connection db = config.createConnection("jdbc:sqlite::memory:");
                PreparedStatement load = db.prepareStatement("SELECT load_extension(?)")) {
            load.setString(1, library);
            load.executeQuery().close();
        }
    }

    static int number(Connection db, String sql) throws SQLException {
        try (Statement statement = db.createStatement();
                ResultSet answer = statement.executeQuery(sql)) {
            return answer.getInt(1);
        }
    }

    public static void main(String[] arguments) throws SQLException {
        load(Optional.ofNullable(System.getenv("LITEFOOT_LIBRARY")).orElse("./liblitefoot.so"));
        try (Connection db = DriverManager.getConnection("jdbc:sqlite:file:readings.db?vfs=litefoot")) {
            try (Statement statement = db.createStatement()) {
                statement.execute("PRAGMA journal_mode = WAL");
                statement.execute("CREATE TABLE IF NOT EXISTS reading(at INTEGER, sensor TEXT, celsius REAL)");
            }
            db.setAutoCommit(false);
            try (PreparedStatement insert = db.prepareStatement("INSERT INTO reading VALUES (?, ?, ?)")) {
                for (int minute = 0; minute < 500; minute++) {
                    insert.setLong(1, 1772323200L + 60 * minute);
                    insert.setString(2, minute % 2 == 0 ? "hall" : "yard");
                    insert.setDouble(3, 20 + minute % 60 / 10.0);
                    insert.executeUpdate();
                    db.commit();
                }
            }
            int hall = number(db, "SELECT count(*) FROM reading WHERE sensor = 'hall'");
            int rows = number(db, "SELECT count(*) FROM reading");
            int commits = number(db, "SELECT sum(value) FROM litefoot_stats WHERE name LIKE 'commits_%'");
            db.commit();
            System.out.println(hall + " readings in the hall");
            System.out.println(rows + " rows, " + commits + " commits by litefoot");
        }
    }
}
