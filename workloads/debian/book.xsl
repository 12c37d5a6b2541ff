<?xml version="1.0" encoding="UTF-8"?>
<!-- Turns the generated book into HTML: numbered headings, cross references, notes at the end of
     their chapter, tables with sums, a table of contents, and an index of authors. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="html" encoding="UTF-8" indent="yes"/>
  <xsl:strip-space elements="book part chapter section table row"/>
  <xsl:key name="section-by-id" match="section" use="@id"/>
  <xsl:key name="section-by-author" match="section" use="@author"/>
  <xsl:key name="reference" match="ref" use="@to"/>

  <xsl:template match="/book">
    <html>
      <head><title>Book</title></head>
      <body>
        <ol><xsl:apply-templates select="part" mode="contents"/></ol>
        <xsl:apply-templates select="part"/>
        <h1>Authors</h1>
        <xsl:for-each select="//section[generate-id() = generate-id(key('section-by-author', @author)[1])]">
          <xsl:sort select="@author"/>
          <p>
            <xsl:value-of select="@author"/>: <xsl:value-of select="count(key('section-by-author', @author))"/>
            sections, <xsl:value-of select="sum(key('section-by-author', @author)/table/row/cell[2])"/>
          </p>
        </xsl:for-each>
      </body>
    </html>
  </xsl:template>

  <xsl:template match="part" mode="contents">
    <li><xsl:value-of select="@title"/>
      <ol>
        <xsl:for-each select="chapter">
          <xsl:sort select="@title"/>
          <li><a href="#{@id}"><xsl:value-of select="@title"/></a>, <xsl:value-of select="count(section)"/></li>
        </xsl:for-each>
      </ol>
    </li>
  </xsl:template>

  <xsl:template match="part">
    <h1><xsl:number format="I"/>. <xsl:value-of select="translate(@title, 'aeiou', 'AEIOU')"/></h1>
    <xsl:apply-templates/>
  </xsl:template>

  <xsl:template match="chapter">
    <h2 id="{@id}"><xsl:number/>. <xsl:value-of select="@title"/></h2>
    <xsl:apply-templates/>
    <xsl:if test=".//note">
      <ol>
        <xsl:for-each select=".//note"><li><xsl:apply-templates/></li></xsl:for-each>
      </ol>
    </xsl:if>
  </xsl:template>

  <xsl:template match="section">
    <h3 id="{@id}">
      <xsl:number count="chapter"/>.<xsl:number/>
      <xsl:text> by </xsl:text><xsl:value-of select="@author"/>
      <xsl:if test="key('reference', @id)"> (cited <xsl:value-of select="count(key('reference', @id))"/> times)</xsl:if>
    </h3>
    <xsl:apply-templates/>
  </xsl:template>

  <xsl:template match="p"><p><xsl:apply-templates/></p></xsl:template>
  <xsl:template match="em"><em><xsl:apply-templates/></em></xsl:template>
  <xsl:template match="p/note"><sup><xsl:value-of select="string-length()"/></sup></xsl:template>

  <xsl:template match="ref">
    <a href="#{@to}"><xsl:value-of select="key('section-by-id', @to)/@author"/></a>
  </xsl:template>

  <xsl:template match="table">
    <table>
      <xsl:for-each select="row">
        <xsl:sort select="cell[2]" data-type="number" order="descending"/>
        <tr><td><xsl:value-of select="cell[1]"/></td><td><xsl:value-of select="cell[2]"/></td></tr>
      </xsl:for-each>
      <tr><td>sum</td><td><xsl:value-of select="sum(row/cell[2])"/></td></tr>
    </table>
  </xsl:template>
</xsl:stylesheet>
