import java.io.IOException;
import java.util.Arrays;
import java.util.concurrent.ExecutionException;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptor;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.io.compress.Compression;
import org.apache.hadoop.hbase.io.encoding.DataBlockEncoding;
import org.apache.hadoop.hbase.regionserver.BloomType;
import org.apache.hadoop.hbase.util.Bytes;

/** What the Thrift server cannot do: `create TABLE HEX_ROW...`, `flush TABLE`, `split TABLE HEX_ROW...`, `move TABLE`. */
public final class RegionAdmin {
  public static void main(String[] arguments) throws Exception {
    try (Connection connection = ConnectionFactory.createConnection(HBaseConfiguration.create());
        Admin admin = connection.getAdmin()) {
      TableName table = TableName.valueOf(arguments[1]);
      String[] rows = Arrays.copyOfRange(arguments, 2, arguments.length);
      switch (arguments[0]) {
        case "create" -> create(admin, table, rows);
        case "flush" -> admin.flush(table);
        case "split" -> split(admin, table, rows);
        case "move" -> move(admin, table);
        default -> throw new IllegalArgumentException("unknown command: " + arguments[0]);
      }
    }
  }

  /** Creates a table for an index as docs/stores/hbase.md advises, with a region from each of the rows. */
  private static void create(Admin admin, TableName table, String[] rows) throws IOException {
    ColumnFamilyDescriptor entries =
        ColumnFamilyDescriptorBuilder.newBuilder(Bytes.toBytes("e"))
            .setMaxVersions(1)
            .setBloomFilterType(BloomType.ROW)
            .setCompressionType(Compression.Algorithm.SNAPPY)
            .setDataBlockEncoding(DataBlockEncoding.ROW_INDEX_V1)
            .build();
    TableDescriptorBuilder descriptor = TableDescriptorBuilder.newBuilder(table).setColumnFamily(entries);
    for (String family : new String[] {"l", "c"}) {
      descriptor.setColumnFamily(
          ColumnFamilyDescriptorBuilder.newBuilder(Bytes.toBytes(family)).setMaxVersions(1).build());
    }
    admin.createTable(descriptor.build(), Arrays.stream(rows).map(Bytes::fromHex).toArray(byte[][]::new));
  }

  /** Splits at each row in turn. A half of a region is split again only once it has files of its own. */
  private static void split(Admin admin, TableName table, String[] rows) throws Exception {
    for (String row : rows) {
      byte[] at = Bytes.fromHex(row);
      while (!isSplit(admin, table, at)) {
        Thread.sleep(500);
      }
    }
  }

  private static boolean isSplit(Admin admin, TableName table, byte[] row) throws Exception {
    for (RegionInfo region : admin.getRegions(table)) {
      if (Bytes.equals(region.getStartKey(), row)) {
        return true;
      }
      if (region.containsRow(row)) {
        try {
          admin.splitRegionAsync(region.getRegionName(), row).get();
        } catch (ExecutionException | IOException refused) {
          System.err.println("not yet: " + refused);
        }
      }
    }
    return false;
  }

  /** With one region server a move closes each region and opens it again. */
  private static void move(Admin admin, TableName table) throws IOException {
    for (RegionInfo region : admin.getRegions(table)) {
      admin.move(region.getEncodedNameAsBytes());
    }
  }
}
