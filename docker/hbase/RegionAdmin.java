import java.io.IOException;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.util.Bytes;

/** What the Thrift server cannot do with regions: `flush TABLE`, `split TABLE HEX_ROW`, `move TABLE`. */
public final class RegionAdmin {
  public static void main(String[] arguments) throws Exception {
    try (Connection connection = ConnectionFactory.createConnection(HBaseConfiguration.create());
        Admin admin = connection.getAdmin()) {
      TableName table = TableName.valueOf(arguments[1]);
      switch (arguments[0]) {
        case "flush" -> admin.flush(table);
        case "split" -> split(admin, table, Bytes.fromHex(arguments[2]));
        case "move" -> move(admin, table);
        default -> throw new IllegalArgumentException("unknown command: " + arguments[0]);
      }
    }
  }

  private static void split(Admin admin, TableName table, byte[] row) throws Exception {
    for (RegionInfo region : admin.getRegions(table)) {
      if (region.containsRow(row)) {
        admin.splitRegionAsync(region.getRegionName(), row).get();
        return;
      }
    }
  }

  /** With one region server a move closes each region and opens it again. */
  private static void move(Admin admin, TableName table) throws IOException {
    for (RegionInfo region : admin.getRegions(table)) {
      admin.move(region.getEncodedNameAsBytes());
    }
  }
}
