package tempura;

import java.lang.reflect.Field;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.net.SocketException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Generator;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.Predicate;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataType;
import py4j.GatewayServer;
import py4j.Py4JPythonClientPerThread;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;
import scala.collection.Seq;

/**
 * Plans of Catalyst's as text: JSON that tempura/frontend/tree.py reads. Each object has a position in a list, from which it can be had
 * later; one that is known already is not told again.
 *
 * <p>Of a node: its class, children, type, and every constructor argument, other nodes among them as positions. A plan in an expression
 * is not followed.
 */
public final class Tree {
    private static final Type[] NO_TYPES = new Type[0];

    private final List<Object> objects = new ArrayList<Object>();
    private final Map<Object, Integer> positions = new IdentityHashMap<Object, Integer>();
    private final Map<Class, Integer> forms = new HashMap<Class, Integer>();
    private final List<boolean[]> details = new ArrayList<boolean[]>();
    private final Map<String, Integer> types = new HashMap<String, Integer>();
    private String marker;
    private Set<String> ignored;
    private GatewayServer server;
    private StringBuilder newForms;
    private StringBuilder newTypes;
    private StringBuilder newNodes;

    /**
     * A tree without nodes. A leaf is of the table that the metadata of its columns names under {@code marker}. Constructor arguments with
     * the names in {@code ignored}, a line each, are not told. {@code server}: the one that is asked.
     */
    public Tree make(String marker, String ignored, GatewayServer server) {
        Tree tree = new Tree();
        tree.server = server;
        tree.marker = marker;
        tree.ignored = new HashSet<String>();
        for (String name : ignored.split("\n")) {
            tree.ignored.add(name);
        }
        return tree;
    }

    /** The object at a position. */
    public Object at(int position) {
        return objects.get(position);
    }

    /** The position of a plan, and what is new: forms of classes, types, and nodes, operands first. */
    public String add(LogicalPlan plan) {
        return told(new scala.collection.immutable.$colon$colon(plan, scala.collection.immutable.Nil$.MODULE$));
    }

    /** The positions of an operator's attributes, and what is new. */
    public String output(int position) {
        return told(((LogicalPlan) at(position)).output());
    }

    private String told(Seq nodes) {
        newForms = new StringBuilder();
        newTypes = new StringBuilder();
        newNodes = new StringBuilder();
        StringBuilder at = new StringBuilder();
        list(at, nodes);
        sendAtOnce();
        return "{\"at\":" + at + ",\"forms\":[" + newForms + "],\"types\":[" + newTypes + "],\"nodes\":[" + newNodes + "]}";
    }

    /**
     * Have the answer to this call sent at once. py4j gives a long one to its socket in pieces of 8,000 bytes, which would wait there, each
     * until Python acknowledges the one before, and that it does after 40 ms. Where connections are those of no thread, they wait.
     */
    private void sendAtOnce() {
        Object client = server.getCallbackClient();
        if (client instanceof Py4JPythonClientPerThread) {
            try {
                ((Py4JPythonClientPerThread) client).getPerThreadConnection().getSocket().setTcpNoDelay(true);
            } catch (SocketException error) {
                return; // then it waits, too
            }
        }
    }

    private int node(Product object) {
        Integer known = (Integer) positions.get(object);
        if (known != null) {
            return known.intValue();
        }
        int form = form(object);
        StringBuilder text = new StringBuilder("[").append(form).append(',');
        type(text, object);
        text.append(",[");
        if (object instanceof TreeNode) {
            nodes(text, ((TreeNode) object).children().iterator());
        }
        text.append("],[");
        boolean[] detail = (boolean[]) details.get(form);
        for (int i = 0; i < detail.length; i++) {
            if (i > 0) {
                text.append(',');
            }
            String name = object.productElementName(i);
            if (ignored.contains(name)) {
                text.append("null");
            } else {
                value(text, object.productElement(i), detail[i] && object instanceof Expression);
            }
        }
        text.append("],{");
        more(text, object);
        text.append("}]");
        comma(newNodes).append(text);
        positions.put(object, Integer.valueOf(objects.size()));
        objects.add(object);
        return objects.size() - 1;
    }

    private void nodes(StringBuilder text, Iterator nodes) {
        boolean first = true;
        while (nodes.hasNext()) {
            int position = node((Product) nodes.next());
            text.append(first ? "" : ",").append(position);
            first = false;
        }
    }

    private void type(StringBuilder text, Object object) {
        String type = null;
        if (object instanceof Expression) {
            try {
                type = ((Expression) object).dataType().catalogString();
            } catch (Exception error) {
                type = null; // a part of an expression, without a value of its own
            }
        }
        if (type == null) {
            text.append(-1);
            return;
        }
        Integer known = (Integer) types.get(type);
        if (known == null) {
            known = Integer.valueOf(types.size());
            types.put(type, known);
            quoted(comma(newTypes), type);
        }
        text.append(known);
    }

    /** What is no constructor argument of the first list: identities, names, outputs. */
    private void more(StringBuilder text, Object object) {
        if (object instanceof NamedExpression && ((Expression) object).resolved()) {
            quoted(text.append("\"name\":"), ((NamedExpression) object).name());
            text.append(",\"id\":").append(((NamedExpression) object).exprId().id());
        } else if (object instanceof PlanExpression) {
            text.append("\"id\":").append(((PlanExpression) object).exprId().id());
        } else if (object instanceof Cast) {
            Cast cast = (Cast) object;
            boolean zoned = cast.needsTimeZone() && cast.timeZoneId().isDefined();
            quoted(text.append("\"zone\":"), zoned ? (String) cast.timeZoneId().get() : "");
        } else if (object instanceof Generator) {
            quoted(text.append("\"elements\":"), ((Generator) object).elementSchema().catalogString());
        } else if (object instanceof Generate) {
            list(text.append("\"kept\":"), ((Generate) object).requiredChildOutput());
        } else if (object instanceof LogicalPlan && ((LogicalPlan) object).children().isEmpty()) {
            leaf(text, (LogicalPlan) object);
        }
    }

    private void leaf(StringBuilder text, LogicalPlan leaf) {
        list(text.append("\"output\":"), leaf.output());
        quoted(text.append(",\"table\":"), Walk.table(leaf, marker));
        if (leaf instanceof LocalRelation) {
            rows(text.append(",\"rows\":["), (LocalRelation) leaf);
            text.append(']');
        }
    }

    private void rows(StringBuilder text, LocalRelation leaf) {
        Iterator rows = leaf.data().iterator();
        boolean first = true;
        while (rows.hasNext()) {
            InternalRow row = (InternalRow) rows.next();
            text.append(first ? "[" : ",[");
            for (int i = 0; i < leaf.output().size(); i++) {
                text.append(i > 0 ? "," : "");
                value(text, row.get(i, ((Attribute) leaf.output().apply(i)).dataType()), true);
            }
            text.append(']');
            first = false;
        }
    }

    private void list(StringBuilder text, Seq nodes) {
        nodes(text.append('['), nodes.iterator());
        text.append(']');
    }

    // --- classes ---------------------------------------------------------------------------------------------------------------

    private int form(Product object) {
        Class kind = object.getClass();
        Integer known = (Integer) forms.get(kind);
        if (known != null) {
            return known.intValue();
        }
        StringBuilder text = comma(newForms).append('[');
        quoted(text, kind.getName());
        text.append(",[");
        trait(text, object instanceof Predicate, "Predicate");
        trait(text, object instanceof PlanExpression, "PlanExpression");
        trait(text, object instanceof UserDefinedExpression, "UserDefinedExpression");
        trait(text, object instanceof Generator, "Generator");
        text.append("],[");
        boolean[] detail = new boolean[object.productArity()];
        for (int i = 0; i < detail.length; i++) {
            String name = object.productElementName(i);
            detail[i] = !ignored.contains(name) && !holdsTree(declared(kind, name));
            quoted(text.append(i > 0 ? ",[" : "["), name).append(',').append(detail[i]).append(']');
        }
        text.append("]]");
        forms.put(kind, Integer.valueOf(details.size()));
        details.add(detail);
        return details.size() - 1;
    }

    private static void trait(StringBuilder text, boolean has, String name) {
        if (has) {
            text.append(text.charAt(text.length() - 1) == '[' ? "\"" : ",\"").append(name).append('"');
        }
    }

    /** The generic type of a constructor argument, which a class may leave to the one that it extends; null when it is kept under
     * another name. */
    private static Type declared(Class kind, String field) {
        for (Class at = kind; at != null; at = at.getSuperclass()) {
            try {
                Field found = at.getDeclaredField(field);
                return found.getGenericType();
            } catch (NoSuchFieldException error) {
                continue;
            }
        }
        return null;
    }

    private static boolean holdsTree(Type type) {
        Type[] inside = type instanceof ParameterizedType ? ((ParameterizedType) type).getActualTypeArguments() : NO_TYPES;
        for (int i = 0; i < inside.length; i++) {
            if (holdsTree(inside[i])) {
                return true;
            }
        }
        boolean alone = type instanceof Class;
        return alone && (TreeNode.class.isAssignableFrom((Class) type) || NamedExpression.class.isAssignableFrom((Class) type));
    }

    // --- values ----------------------------------------------------------------------------------------------------------------

    /** A value as JSON, marked where JSON has none of its kind. {@code whole}: one of no known kind as its own text. */
    private void value(StringBuilder text, Object value, boolean whole) {
        if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long || value instanceof Short
                || value instanceof Byte) {
            text.append(value);
        } else if (value instanceof String || value instanceof Character) {
            quoted(text, value.toString());
        } else if (value instanceof Double || value instanceof Float) {
            marked(text, "d", value.toString());
        } else if (value instanceof java.math.BigDecimal) {
            marked(text, "D", value.toString());
        } else if (value instanceof byte[]) {
            marked(text, "b", java.util.Base64.getEncoder().encodeToString((byte[]) value));
        } else if (value instanceof org.apache.spark.unsafe.types.UTF8String) {
            org.apache.spark.unsafe.types.UTF8String told = (org.apache.spark.unsafe.types.UTF8String) value;
            if (told.isValid()) {
                marked(text, "u", told.toString());
            } else {
                value(text, told.getBytes(), whole);
            }
        } else if (value instanceof Option) {
            if (((Option) value).isDefined()) {
                value(text.append("[\"o\","), ((Option) value).get(), whole);
                text.append(']');
            } else {
                text.append("[\"o\"]");
            }
        } else if (value.getClass().getName().startsWith("scala.collection.")) {
            values(text, (scala.collection.Iterable) value, whole);
        } else if (value instanceof JoinType || (value instanceof TreeNode && follows(value))) {
            text.append("[\"n\",").append(node((Product) value)).append(']');
        } else {
            object(text, value, whole);
        }
    }

    /** A plan in an expression is not followed; one that is a child is known by then. */
    private boolean follows(Object node) {
        return !(node instanceof LogicalPlan) || positions.containsKey(node);
    }

    private void values(StringBuilder text, scala.collection.Iterable values, boolean whole) {
        String name = values.getClass().getName();
        boolean set = name.contains(".Set") || name.substring(name.lastIndexOf('.') + 1).contains("Set");
        text.append(set ? "[\"s\",[" : "[\"l\",[");
        Iterator iterator = values.iterator();
        for (boolean first = true; iterator.hasNext(); first = false) {
            value(text.append(first ? "" : ","), iterator.next(), whole);
        }
        text.append("]]");
    }

    private void object(StringBuilder text, Object value, boolean whole) {
        String name = value.getClass().getName();
        if (name.startsWith("org.apache.spark.sql.types.") && value instanceof DataType) {
            marked(text, "t", ((DataType) value).catalogString());
        } else if (name.endsWith(".NumericEvalContext")) { // since Spark 4.1
            boolean loose = ((Boolean) ((Product) value).productElement(1)).booleanValue();
            marked(text, "t", ((Product) value).productElement(0) + (loose ? "" : " strict-scale"));
        } else if (whole || value instanceof Enum || (value instanceof Product && ((Product) value).productArity() == 0)) {
            marked(text, "t", value.toString());
        } else {
            text.append("null");
        }
    }

    private static void marked(StringBuilder text, String mark, String value) {
        quoted(text.append("[\"").append(mark).append("\","), value).append(']');
    }

    private static StringBuilder comma(StringBuilder text) {
        return text.length() > 0 ? text.append(',') : text;
    }

    private static StringBuilder quoted(StringBuilder text, String value) {
        text.append('"');
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            if (c == '"' || c == '\\') {
                text.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                text.append(String.format("\\u%04x", new Object[] {Integer.valueOf(c)}));
            } else {
                text.append(c);
            }
        }
        return text.append('"');
    }
}
