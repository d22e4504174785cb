package tempura;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import py4j.Gateway;
import py4j.GatewayServer;
import py4j.Py4JJavaException;
import py4j.reflection.MethodInvoker;
import py4j.reflection.ReflectionEngine;

/**
 * Many calls as one. Each is words: {@code m}, a method, an object and what the method is given; {@code s}, a class, a static method and what
 * that is given; or {@code n}, a class and what its constructor is given. What they are given comes after how many that is (the object among
 * them): {@code #}, the number of an earlier call; {@code @}, py4j's name of an object; or a value. Methods are found as py4j finds them.
 */
public final class Script {
    /** What the last call gives. */
    public Object run(GatewayServer server, String text) throws Throwable {
        return new Reading((Gateway) server.getGateway(), Given.texts(text)).last();
    }

    private static final class Reading {
        private final Gateway gateway;
        private final ReflectionEngine methods;
        private final String[] words;
        private final List made = new ArrayList();
        private int next = 0;

        Reading(Gateway gateway, String[] words) {
            this.gateway = gateway;
            this.methods = gateway.getReflectionEngine();
            this.words = words;
        }

        Object last() throws Throwable {
            Object found = null;
            while (next < words.length) {
                found = call();
                made.add(found);
            }
            return found;
        }

        private Object call() throws Throwable {
            String kind = words[next++];
            String name = words[next++];
            if (kind.equals("n")) {
                Object[] given = given();
                return invoked(null, methods.getConstructor(name, given), given);
            }
            if (kind.equals("s")) {
                String method = words[next++];
                Object[] given = given();
                return invoked(null, methods.getMethod(name, method, given), given);
            }
            int count = Integer.parseInt(words[next++]);
            Object target = value();
            Object[] given = new Object[count - 1];
            for (int i = 0; i < given.length; i++) {
                given[i] = value();
            }
            return invoked(target, methods.getMethod(target, name, given), given);
        }

        private Object[] given() {
            Object[] found = new Object[Integer.parseInt(words[next++])];
            for (int i = 0; i < found.length; i++) {
                found[i] = value();
            }
            return found;
        }

        private Object invoked(Object target, MethodInvoker method, Object[] given) throws Throwable {
            try {
                return methods.invoke(target, method, given);
            } catch (Py4JJavaException error) {
                throw error.getCause();
            }
        }

        private Object value() {
            String word = unescaped(words[next++]);
            String rest = word.substring(1);
            switch (word.charAt(0)) {
                case '#':
                    return made.get(Integer.parseInt(rest));
                case '@':
                    return gateway.getObject(rest);
                case 't':
                    return Boolean.TRUE;
                case 'f':
                    return Boolean.FALSE;
                case 'i':
                    return Integer.valueOf(rest);
                case 'l':
                    return Long.valueOf(rest);
                case 'd':
                    return real(rest);
                case 'D':
                    return new BigDecimal(rest);
                case '\'':
                    return rest;
                case 'b':
                    return bytes(rest);
                case '[':
                    return list(Integer.parseInt(rest));
                default:
                    return null;
            }
        }

        private List list(int size) {
            List found = new ArrayList();
            for (int i = 0; i < size; i++) {
                found.add(value());
            }
            return found;
        }

        private static Double real(String text) {
            if (text.equals("inf")) {
                return Double.valueOf(Double.POSITIVE_INFINITY);
            }
            if (text.equals("-inf")) {
                return Double.valueOf(Double.NEGATIVE_INFINITY);
            }
            return text.equals("nan") ? Double.valueOf(Double.NaN) : Double.valueOf(text);
        }

        private static byte[] bytes(String hex) {
            byte[] found = new byte[hex.length() / 2];
            for (int i = 0; i < found.length; i++) {
                found[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
            }
            return found;
        }

        private static String unescaped(String word) {
            return word.indexOf('\u0001') < 0 ? word : word.replace("\u00010", "\u0000").replace("\u00011", "\u0001");
        }
    }
}
