// The smoke test of packages: inserts a row, says who is beneath and how many rows there are, and dies if told to.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;

public class Smoke {
    public static void main(String[] arguments) throws Exception {
        try (Connection db = DriverManager.getConnection("jdbc:sqlite:app.db");
                Statement statement = db.createStatement()) {
            statement.execute("CREATE TABLE IF NOT EXISTS t(x)");
            statement.execute("INSERT INTO t VALUES (1)");
            boolean answers = statement.execute("PRAGMA litefoot_version");
            System.out.println(answers ? statement.getResultSet().getString(1) : "stock");
            try (ResultSet answer = statement.executeQuery("SELECT count(*) FROM t")) {
                System.out.println(answer.getInt(1));
            }
            System.out.flush();
            if (arguments.length > 0) {
                Runtime.getRuntime().exec(new String[] {"kill", "-KILL", Long.toString(ProcessHandle.current().pid())});
                Thread.sleep(60_000);
            }
        }
    }
}
