package tempura;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.PartialFunction;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;

/** What a query answers over given rows. */
public final class Answers {
    /**
     * An analysed plan with rows in the place of leaves, also of those of views and sub-queries: a plan for each, analysed or not, with as many
     * columns.
     */
    public LogicalPlan over(SparkSession session, LogicalPlan plan, List leaves, List rows) {
        Map replaced = Map$.MODULE$.empty();
        for (int i = 0; i < leaves.size(); i++) {
            LogicalPlan leaf = (LogicalPlan) leaves.get(i);
            replaced = (Map) replaced.updated(leaf, inPlaceOf(leaf, analysed(session, (LogicalPlan) rows.get(i))));
        }
        return (LogicalPlan) plan.transformUpWithSubqueries((PartialFunction) replaced);
    }

    private static LogicalPlan analysed(SparkSession session, LogicalPlan plan) {
        boolean done = plan.children().isEmpty() && plan.resolved();
        return done ? plan : (LogicalPlan) session.sessionState().analyzer().execute(plan);
    }

    /** The rows under the names and identities of the leaf's columns. */
    private static LogicalPlan inPlaceOf(LogicalPlan leaf, LogicalPlan rows) {
        if (leaf.output().size() != rows.output().size()) {
            throw new IllegalArgumentException(rows.output().size() + " columns in the place of " + leaf.output().size());
        }
        return isRead(leaf, rows) ? identified(leaf, rows) : renamed(leaf, rows);
    }

    /** Whether rows are columns of one relation, under the leaf's names. */
    private static boolean isRead(LogicalPlan leaf, LogicalPlan rows) {
        Seq read = rows.collectLeaves();
        if (read.size() != 1 || !rows.outputSet().subsetOf(((LogicalPlan) read.head()).outputSet())) {
            return false;
        }
        Iterator columns = rows.output().iterator();
        Iterator wanted = leaf.output().iterator();
        while (columns.hasNext()) {
            if (!((NamedExpression) columns.next()).name().equals(((NamedExpression) wanted.next()).name())) {
                return false;
            }
        }
        return rows.outputSet().size() == rows.output().size();
    }

    /**
     * Rows whose relation has the leaf's identities from the start. A column that only has another identity is left where a union needs it and
     * goes elsewhere: then two parts of a plan that compute the same are not alike any more, and both are computed.
     */
    private static LogicalPlan identified(LogicalPlan leaf, LogicalPlan rows) {
        Map exchanged = Map$.MODULE$.empty();
        Iterator columns = rows.output().iterator();
        Iterator wanted = leaf.output().iterator();
        while (columns.hasNext()) {
            Attribute column = (Attribute) columns.next();
            exchanged = (Map) exchanged.updated(column, column.withExprId(((NamedExpression) wanted.next()).exprId()));
        }
        return (LogicalPlan) rows.transformAllExpressions((PartialFunction) exchanged);
    }

    private static LogicalPlan renamed(LogicalPlan leaf, LogicalPlan rows) {
        List named = new ArrayList();
        Iterator columns = rows.output().iterator();
        Iterator wanted = leaf.output().iterator();
        while (columns.hasNext()) {
            NamedExpression as = (NamedExpression) wanted.next();
            Object[] given = {columns.next(), as.name(), as.exprId(), Given.none(), Option.empty(), Given.none()};
            named.add(Given.made(Alias.class, given));
        }
        return new Project(Given.seq(named), rows);
    }
}
