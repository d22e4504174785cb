package tempura;

import java.lang.reflect.Constructor;
import java.net.SocketException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.python.PythonUtils;
import py4j.GatewayServer;
import py4j.Py4JPythonClientPerThread;
import scala.Option;
import scala.collection.immutable.Seq;

/** What Python gives, in one call, and what is made of it. */
public final class Given {
    /** The end of each of several texts that come as one. */
    public static final String END = "\u0000";

    /** The texts of which each is ended by a zero. */
    public static String[] texts(String ended) {
        return ended.isEmpty() ? new String[0] : ended.substring(0, ended.length() - 1).split(END, -1);
    }

    /** A Scala sequence. */
    public static Seq seq(List items) {
        return PythonUtils.toSeq(items);
    }

    /** A Scala sequence of nothing. */
    public static Seq none() {
        return seq(new ArrayList());
    }

    /**
     * Have a long answer to this call sent at once. py4j gives it to its socket in pieces of 8,000 bytes, which would wait there, each until
     * Python acknowledges the one before, and that it does after 40 ms.
     */
    public static void answeredAtOnce(GatewayServer server) {
        Object client = server.getCallbackClient();
        if (!(client instanceof Py4JPythonClientPerThread)) {
            return; // connections are those of no thread: it takes longer
        }
        try {
            ((Py4JPythonClientPerThread) client).getPerThreadConnection().getSocket().setTcpNoDelay(true);
        } catch (SocketException error) {
            return; // the same
        }
    }

    /** By the only constructor, whose further parameters, options all of them, some versions of Spark have and others do not. */
    public static Object made(Class type, Object[] given) {
        try {
            Constructor of = type.getConstructors()[0];
            Object[] all = new Object[of.getParameterCount()];
            for (int i = 0; i < all.length; i++) {
                all[i] = i < given.length ? given[i] : Option.empty();
            }
            return of.newInstance(all);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
