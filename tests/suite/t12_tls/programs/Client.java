// Arguments: the port, the version (1.2 or 1.3), the authority's certificate, the client's certificate with its key (PKCS #12,
// password "secret"), the body.
import java.io.FileInputStream;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.HexFormat;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.TrustManagerFactory;

public class Client {
    static String url;

    static HttpClient client(SSLContext context, String version) {
        SSLParameters parameters = context.getDefaultSSLParameters();
        parameters.setProtocols(new String[] {"TLSv" + version});
        return HttpClient.newBuilder().sslContext(context).sslParameters(parameters).version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(Duration.ofSeconds(30)).build();
    }

    static byte[] ask(HttpClient client, String path, String body) throws Exception {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path)).timeout(Duration.ofSeconds(30));
        if (body != null) {
            request.POST(HttpRequest.BodyPublishers.ofString(body));
        }
        return client.send(request.build(), HttpResponse.BodyHandlers.ofByteArray()).body();
    }

    public static void main(String[] arguments) throws Exception {
        url = "https://localhost:" + arguments[0];
        String version = arguments[1];
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        trusted.load(null, null);
        try (InputStream file = new FileInputStream(arguments[2])) {
            trusted.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(trusted);
        KeyStore own = KeyStore.getInstance("PKCS12");
        try (InputStream file = new FileInputStream(arguments[3])) {
            own.load(file, "secret".toCharArray());
        }
        KeyManagerFactory keys = KeyManagerFactory.getInstance("PKIX");
        keys.init(own, "secret".toCharArray());
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);

        HttpClient first = client(context, version);
        System.out.println(new String(ask(first, "/tell", null)));
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(ask(first, "/large", null));
        System.out.println(HexFormat.of().formatHex(digest));
        System.out.println(new String(ask(first, "/echo", arguments[4])));
        System.out.println(new String(ask(first, "/tell", null)));
        // A client of its own has no connection yet; sessions are the context's.
        System.out.println(new String(ask(client(context, version), "/tell", null)));
        System.exit(0);
    }
}
