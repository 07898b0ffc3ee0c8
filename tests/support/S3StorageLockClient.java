package org.apache.hudi.aws.transaction.lock;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Properties;

import org.apache.hudi.client.transaction.lock.StorageLockClient;
import org.apache.hudi.client.transaction.lock.models.LockGetResult;
import org.apache.hudi.client.transaction.lock.models.LockUpsertResult;
import org.apache.hudi.client.transaction.lock.models.StorageLockData;
import org.apache.hudi.client.transaction.lock.models.StorageLockFile;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.collection.Pair;

/** Stands in for the client of the module hudi-aws, which sends the same requests by the SDK of AWS. */
public class S3StorageLockClient implements StorageLockClient {
  private final String endpoint;
  private final String lockFile;

  public S3StorageLockClient(String owner, String lockFile, Properties properties) {
    this.endpoint = properties.getProperty("rli.tests.endpoint");
    this.lockFile = lockFile;
  }

  public Pair tryUpsertLockFile(StorageLockData data, Option previous) {
    try {
      HttpURLConnection request = open(lockFile, "PUT");
      if (previous.isPresent()) {
        request.setRequestProperty("If-Match", ((StorageLockFile) previous.get()).getVersionId());
      } else {
        request.setRequestProperty("If-None-Match", "*");
      }
      int status = send(request, StorageLockFile.toByteArray(data));
      if (status == 200) {
        return Pair.of(LockUpsertResult.SUCCESS, Option.of(new StorageLockFile(data, request.getHeaderField("ETag"))));
      }
      return Pair.of(status == 412 ? LockUpsertResult.ACQUIRED_BY_OTHERS : LockUpsertResult.UNKNOWN_ERROR, Option.empty());
    } catch (IOException error) {
      return Pair.of(LockUpsertResult.UNKNOWN_ERROR, Option.empty());
    }
  }

  public Pair readCurrentLockFile() {
    try {
      HttpURLConnection request = open(lockFile, "GET");
      if (request.getResponseCode() == 404) {
        return Pair.of(LockGetResult.NOT_EXISTS, Option.empty());
      }
      InputStream content = new ByteArrayInputStream(request.getInputStream().readAllBytes());
      return Pair.of(LockGetResult.SUCCESS, Option.of(StorageLockFile.createFromStream(content, request.getHeaderField("ETag"))));
    } catch (IOException error) {
      return Pair.of(LockGetResult.UNKNOWN_ERROR, Option.empty());
    }
  }

  public Option readObject(String path, boolean checkExistsFirst) {
    try {
      HttpURLConnection request = open(path, "GET");
      if (request.getResponseCode() == 404) {
        return Option.empty();
      }
      return Option.of(new String(request.getInputStream().readAllBytes(), StandardCharsets.UTF_8));
    } catch (IOException error) {
      return Option.empty();
    }
  }

  public boolean writeObject(String path, String content) {
    try {
      return send(open(path, "PUT"), content.getBytes(StandardCharsets.UTF_8)) == 200;
    } catch (IOException error) {
      return false;
    }
  }

  public void close() {
  }

  private HttpURLConnection open(String uri, String method) throws IOException {
    HttpURLConnection request = (HttpURLConnection) new URL(endpoint + uri.substring(uri.indexOf("//") + 1)).openConnection();
    request.setRequestMethod(method);
    // The server asks for a signature, and does not check it.
    request.setRequestProperty("Authorization", "AWS4-HMAC-SHA256 Credential=anybody/20260101/us-east-1/s3/aws4_request");
    return request;
  }

  private int send(HttpURLConnection request, byte[] content) throws IOException {
    request.setDoOutput(true);
    request.getOutputStream().write(content);
    return request.getResponseCode();
  }
}
